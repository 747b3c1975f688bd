"""What all engines guarantee, tried on each of them."""

import itertools
import json
import re
from dataclasses import replace
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from galleries import FAMILIES, random_embeddings, random_rows
from memory_engine import MemoryEngine

from surefind.embeddings import Gaussians
from surefind.engines.base import EngineError, Rows, Space
from surefind.engines.filters import COMPARE, Condition, Where
from surefind.errors import InvalidArgument, SurefindError

DIM = 12
ODD_IDS = (
    *("plain", "with space", " ", "line\nbreak\ttab", "\x01\x1f\x7f", "../../etc", "x" * 1024),
    *("quote \" and ' and \\", "\\", "x\\", '\\" or true', '"] or true or id in ["', "\\n"),
    *("'; DROP TABLE surefind; --", "%s %(x)s {0}", "%", "[red]markup[/red]", "null", "1"),
    *("ünïcode/ß/漢字/😀", "é" * 512, "😀" * 256, "e\u0301", "\u2028", "\u202e", "\U0010ffff"),
)
ODD_METADATA = {
    "empty": "",
    "text": 'ünï "q" \\ \n 😀',
    "long": "y" * 5000,
    "yes": True,
    "no": False,
    "whole": 2**53 - 1,
    "minus": -(2**53) + 1,
    "zero": 0,
    "one": 1.0,
    "real": 0.1 + 0.2,
    "small": 5e-324,
    "large": 1.7976931348623157e308,
    "round": 1e22,
}
TEXTS = (
    *("", "a", "aa", "A", "b", "z", "é", "e\u0301", "😀", "\uffff", "1", "1.0", "true", "null"),
    "%",
    *("_", 'q"uote', "a'b", "back\\slash", "\\", "\\n", "new\nline", "\t", "\x01", "\x7f"),
    *("\u2028", '" or true or "', "' OR TRUE --", "{x}", "%s", "/* x", "# x", "// x"),
)
NUMBERS = (
    *(0, 1, 2, -1, 2**53 - 1, -(2**53) + 1, 2**52 + 1, 10**15, 0.0, -0.0, 1.0, 0.5, 2.5, -2.5),
    *(0.1 + 0.2, 0.3, 1e-7, 5e-324, 1e15, 1e16, 1e22, 1e308, -1e308),
)
VALUES = (*TEXTS, *NUMBERS, True, False)


def ids_of(engine, keys) -> list[str]:
    return list(engine.rows(keys).ids)


def found_ids(engine, query, k, where=None) -> list[list[str]]:
    found = engine.search(engine.space.queries(query).vectors, k, where)
    return [
        ids_of(engine, keys[np.isfinite(distance)]) for keys, distance in zip(found.keys, found.distance, strict=True)
    ]


def twin(rows: Rows, space: Space) -> MemoryEngine:
    engine = MemoryEngine(space)
    engine.add(rows)
    return engine


def assert_equal_rows(got: Rows, want: Rows) -> None:
    assert got.ids == want.ids
    assert got.digests == want.digests
    assert json.dumps(got.metadata, sort_keys=True) == json.dumps(want.metadata, sort_keys=True)
    assert type(got.embeddings) is type(want.embeddings)
    assert torch.allclose(got.embeddings.mean, want.embeddings.mean, atol=1e-6)
    assert torch.allclose(got.embeddings.spread, want.embeddings.spread, rtol=1e-6)


def test_an_empty_engine_answers(make):
    engine = make()
    engine.add(random_rows(0, DIM, 0))
    assert engine.count() == len(engine.find(["nobody"])) == 0
    assert not np.isfinite(engine.search(np.zeros((2, DIM + 1), "f4"), 3).distance).any()
    assert sum(len(block.keys) for block in engine.scan()) == 0
    assert engine.remove(["nobody"]) == 0
    assert engine.verify() == []


def test_facts_and_space_come_back(make):
    engine = make(Space("von-mises-fisher", DIM, "mean"))
    again = make.again()
    assert again.space == Space("von-mises-fisher", DIM, "mean")
    assert dict(again.facts) == dict(engine.facts)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("ranking", ["expected", "mean"])
def test_search_finds_what_brute_force_finds(make, family, ranking):
    space = Space(family, DIM, ranking)
    rows = random_rows(150, DIM, 0, family=family)
    engine = make(space)
    engine.add(rows)
    query, reference = random_embeddings(9, DIM, 1, family=family), twin(rows, space)
    assert engine.exact
    for k in (7, 200):  # more than there are gives all
        assert found_ids(engine, query, k) == found_ids(reference, query, k)
    found, want = (one.search(space.queries(query).vectors, 40) for one in (engine, reference))
    assert np.allclose(found.distance, want.distance, atol=1e-5)  # squared, ascending
    assert np.allclose(found.var, want.var, rtol=1e-6)
    assert np.array_equal(found.vectors, want.vectors)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_come_back_as_they_were_given(make, family):
    engine = make(Space(family, DIM))
    rows = random_rows(30, DIM, 0, family=family)
    engine.add(rows)
    back = make.again() if make.new_place else engine
    keys = np.concatenate([block.keys for block in back.scan()])
    names = ids_of(back, keys)
    assert sorted(names) == sorted(rows.ids)  # each once
    order = [names.index(name) for name in rows.ids]
    assert_equal_rows(back.rows(keys[order]), rows)


def test_odd_ids_and_metadata_survive(make):
    engine = make()
    count = len(ODD_IDS)
    metadata = (ODD_METADATA, *({"text": name[:300]} for name in ODD_IDS[1:]))
    rows = Rows(ODD_IDS, random_embeddings(count, DIM, 0), ("",) * count, metadata)
    engine.add(rows)
    assert engine.digests_of(ODD_IDS) == dict.fromkeys(ODD_IDS, "")
    for _ in range(2):
        back = engine.find(ODD_IDS[::-1])
        assert back.ids == ODD_IDS[::-1]
        for got, given in zip(back.metadata[::-1], metadata, strict=True):
            assert {n: repr(v) for n, v in got.items()} == {n: repr(v) for n, v in given.items()}
        engine.compact()
    for name in ODD_IDS:
        assert engine.remove([name]) == 1
    assert engine.count() == 0


def test_a_known_id_is_replaced(make):
    engine = make()
    engine.add(random_rows(8, DIM, 0))
    engine.add(random_rows(20, DIM, 1, prefix="other"))
    changed = random_rows(5, DIM, 99)
    engine.add(changed)
    assert engine.count() == 28
    assert found_ids(engine, changed.embeddings, 1)[0] in ([name] for name in changed.ids)
    assert_equal_rows(engine.find(changed.ids), changed)
    mixed = ("other-4", "row-7", "row-0", "other-1", "row-6")  # of all three additions
    assert engine.find(mixed).ids == mixed


def test_removed_rows_are_never_found(make):
    engine = make()
    rows = random_rows(60, DIM, 0)
    engine.add(rows)
    gone = [f"row-{n}" for n in range(0, 60, 2)]
    assert engine.remove([*gone, *gone, "nobody"]) == 30
    assert engine.count() == 30
    for found in found_ids(engine, rows.embeddings[:10], 60):
        assert sorted(found) == sorted(set(rows.ids) - set(gone))
    assert engine.digests_of(gone) == {} and len(engine.find(gone)) == 0
    assert engine.ids_of([d for n, d in enumerate(rows.digests) if n % 2 == 0 and d]) == {}
    engine.add(rows)  # removed ids can be added again
    assert engine.count() == 60 and engine.find(gone).ids == tuple(gone)


def test_keys_of_rows_that_were_removed_meanwhile_are_an_error(make):
    make().add(random_rows(3, DIM, 0))
    engine = make.again()
    (block,) = engine.scan()
    engine.remove(["row-1"])
    with pytest.raises(SurefindError, match="search again"):
        engine.rows(block.keys)


def test_digests_find_ids(make):
    engine = make()
    rows = random_rows(30, DIM, 0)
    engine.add(rows)
    want = {digest: name for name, digest in zip(rows.ids, rows.digests, strict=True) if digest}
    assert engine.ids_of([*want, "0" * 64]) == want
    assert engine.ids_of([]) == {}
    assert engine.digests_of([]) == {}
    assert engine.digests_of(["row-1", "nobody"]) == {"row-1": rows.digests[1]}


def test_rows_are_found_by_id_in_the_order_asked_and_once(make):
    engine = make()
    rows = random_rows(30, DIM, 0)
    engine.add(rows)
    order = [17, 3, 29, 0]
    names = [rows.ids[n] for n in order]
    asked = [names[0], "nobody", *names[1:], names[1], "", "x" * 2000, "\0", "\udcff"]
    want = Rows(
        tuple(names),
        rows.embeddings[order],
        tuple(rows.digests[n] for n in order),
        tuple(rows.metadata[n] for n in order),
    )
    assert_equal_rows(engine.find(asked), want)
    impossible = ["", "\0", "\udcff"]
    assert engine.digests_of(["row-1", *impossible]) == {"row-1": rows.digests[1]}
    assert engine.ids_of(impossible) == {}
    assert engine.remove(impossible) == 0
    assert len(engine.find([])) == 0 and engine.find([]).embeddings.dim == DIM


CONDITIONS = (
    *(["label=a"], ["label != a"], ["year in 2001,2006"], ["weight = 1"], ["blurred != true"]),
    *(["label = z"], ["year > 3000", "label = a"], ["var < 0.04"], ["var >= 0.04"]),
    ["label in a,b", "year > 2001", "var < 0.06", "blurred = false"],
)


def test_searches_counts_and_scans_satisfy_conditions(make):
    engine = make()
    rows = random_rows(80, DIM, 0)
    engine.add(rows)
    reference = twin(rows, engine.space)
    query = random_embeddings(2, DIM, 1)
    for written in CONDITIONS:
        where = Where.parse(written)
        assert engine.count(where) == reference.count(where), written
        assert found_ids(engine, query, 9, where) == found_ids(reference, query, 9, where), written
        scanned = sum(len(block.keys) for block in engine.scan(where))
        assert scanned == reference.count(where), written


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("lable = a", "fields that there are: blurred, label, path, var, weight, year, got 'lable'"),
        ("year = '2001'", "condition on 'year': expected a number, got the string '2001'"),
        ("label > 1", 'expected a string, such as label="1", got the number 1'),
        ("label = true", 'expected a string, such as label="True", got the bool True'),
    ],
)
def test_an_unknown_field_and_another_type_are_errors_that_say_what_there_is(make, written, message):
    engine = make()
    engine.add(random_rows(20, DIM, 0))
    where = Where.parse(["var > 0", written])
    for ask in (
        engine.count,
        lambda where: list(engine.scan(where)),
        lambda where: engine.search(np.zeros((1, DIM + 1), "f4"), 3, where),
    ):
        with pytest.raises(InvalidArgument, match=re.escape(message)):
            ask(where)


def test_a_field_that_only_removed_rows_had_is_unknown(make):
    engine = make()
    rows = random_rows(3, DIM, 0)
    engine.add(replace(rows, metadata=({"size": 1}, {"label": "a"}, {"label": "b"})))
    assert engine.count(Where.parse("size = 1")) == 1
    engine.remove(["row-0"])
    with pytest.raises(InvalidArgument, match="got 'size'"):
        engine.count(Where.parse("size = 1"))


def test_every_comparison_with_every_value_chooses_as_holds_does(make):
    metadata = [{}, {"g": "f"}, {"g": 1, "f": "a"}, *({"f": value} for value in VALUES)]
    count = len(metadata)
    var = 0.25 * torch.arange(1, count + 1)
    embeddings = Gaussians(torch.zeros(count, DIM), var)
    rows = Rows(tuple(map(str, range(count))), embeddings, ("",) * count, tuple(metadata))
    conditions = [Condition("var", "in", (0.25, 1, 7.75)), Condition("f", "in", ("a", "😀", "no"))]
    for op, value in itertools.product(COMPARE, VALUES):
        if not (isinstance(value, bool) and op[0] in "<>"):
            conditions.append(Condition("f", op, (value,) if op == "in" else value))
    for op, number in itertools.product(("=", "!=", "<", "<=", ">", ">="), (0.25, 1, 1e-12)):
        conditions.append(Condition("var", op, number))
    engine = make()
    engine.add(rows)
    for _ in range(2):
        for condition in conditions:
            where = Where((condition,))
            found = {name for block in engine.scan(where) for name in ids_of(engine, block.keys)}
            pairs = zip(rows.ids, metadata, var.tolist(), strict=True)
            assert found == {name for name, one, v in pairs if where.holds(one, v)}, condition
        engine.compact()


def test_the_newest_shows_what_another_wrote_and_is_none_if_nobody_did(make):
    engine = make()
    other = make.again()
    assert other.newest() is None
    engine.add(random_rows(8, DIM, 0))
    newer = other.newest()
    assert newer is not None and newer.count() == 8
    assert newer.find(["row-5"]).ids == ("row-5",)
    assert newer.newest() is None
    engine.remove(["row-5"])
    newest = newer.newest()
    assert newest is not None and len(newest.find(["row-5"])) == 0
    engine.remove(["row-6"])
    newest.refresh()
    assert newest.count() == 6
    assert newest.space == engine.space and dict(newest.facts) == dict(engine.facts)


def test_the_revision_changes_with_the_rows_and_with_nothing_else(make):
    engine = make()
    seen = [engine.revision]
    for change in (
        lambda: engine.add(random_rows(8, DIM, 0)),
        lambda: engine.add(random_rows(3, DIM, 1, prefix="other")),
        lambda: engine.remove(["row-5"]),
        lambda: engine.remove(["row-1", "row-2"]),
    ):
        change()
        assert engine.revision[0] == seen[0][0] and engine.revision != seen[-1]
        seen.append(engine.revision)
        found_ids(engine, random_embeddings(2, DIM, 1), 4)
        engine.find(["row-3"])
        engine.count()
        assert engine.revision == seen[-1]


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_approximate_kinds_find_nearly_everything(make, kind):
    rows = random_rows(3000, DIM, 0)
    engine = make(kind=kind)
    engine.add(rows)
    engine.compact()
    query = random_embeddings(30, DIM, 1)
    got, want = found_ids(engine, query, 10), found_ids(twin(rows, engine.space), query, 10)
    shared = sum(len(set(g) & set(w)) for g, w in zip(got, want, strict=True))
    assert shared >= 0.97 * 300
    assert engine.verify() == []


def test_many_changes_are_there_when_opened_again_and_verified(make):
    engine = make()
    for step in range(4):
        engine.add(random_rows(30, DIM, step, prefix=f"step{step % 3}"))
        engine.remove([f"step{step % 3}-{n}" for n in range(step)])
    engine.compact()
    assert engine.verify() == []
    assert engine.count() == sum(len(block.keys) for block in engine.scan())
    again = make.again()
    assert again.count() == engine.count()
    query = random_embeddings(4, DIM, 1)
    assert found_ids(again, query, 10) == found_ids(engine, query, 10)


def test_a_closed_engine_raises(make):
    make()
    engine = make.again()
    engine.close()
    engine.close()
    zeros = np.zeros((1, DIM + 1), "f4")
    for use in (engine.count, engine.refresh, lambda: engine.search(zeros, 1)):
        with pytest.raises(EngineError, match="closed"):
            use()


def test_a_description_is_json_without_the_password(make):
    engine = make()
    engine.add(random_rows(3, DIM, 0))
    found = engine.describe()
    assert found["kind"] == "flat" and found.get("rows", 3) == 3
    password = urlsplit(make.place).password
    assert not password or f":{password}" not in json.dumps(found)


def test_another_dimension_is_refused_and_nothing_is_lost(make):
    engine = make()
    engine.add(random_rows(5, DIM, 0))
    with pytest.raises(InvalidArgument, match="dimensions"):
        engine.add(random_rows(3, DIM + 1, 1, prefix="other"))
    assert engine.count() == 5


@pytest.mark.parametrize("digest", ["a", "A" * 64, "g" * 64, "0" * 63, "ü" * 64])
def test_a_digest_that_is_none_is_refused(digest: str):
    with pytest.raises(InvalidArgument, match="sha256"):
        Rows(("a",), random_embeddings(1, DIM, 0), (digest,), ({},))
