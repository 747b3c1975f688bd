"""Rows come back as they were given."""

import pytest
import torch

from surefind.engines.engine import EngineError, Rows
from surefind.engines.opening import create_engine
from surefind.engines.space import Space
from surefind.errors import InvalidArgument

ODD_METADATA = (
    {"whole": 1, "float": 1.0, "true": True, "text": "1", "big": 2**53 - 1, "minus": -0.0},
    {"huge": 1e20, "tiny": 5e-324, "long": 0.1 + 0.2, "integral": 1e16, "largest": 1.7e308},
    {"quotes": "'\"`\\", "lines": "a\nb\r\n\t", "emoji": "😀👩‍👩‍👧", "empty": "", "zero": 0},
    {"last": "é e\u0301 \u202e \uffff", "first": "x" * 20_000, "B": False, "a": 1, "_": 2},
    {},
)


def keys_of(engine):
    return [key for block in engine.scan() for key in block.keys]


def by_id(engine) -> dict[str, int]:
    rows = engine.rows(keys_of(engine))
    return {name: row for row, name in enumerate(rows.ids)}


def test_metadata_come_back_exactly_with_their_types(make_engine, make_rows):
    engine = make_engine()
    for number, metadata in enumerate(ODD_METADATA):
        engine.add(make_rows(str(number), metadata=metadata))
    rows = engine.rows(keys_of(engine))
    found = dict(zip(rows.ids, rows.metadata, strict=True))
    for number, given in enumerate(ODD_METADATA):
        assert repr(found[str(number)]) == repr(given)  # 1 == 1.0 == True, their texts differ


@pytest.mark.parametrize(
    "name",
    ["a/b.jpg", "😀", "'; DROP TABLE surefind; --", "a\nb", " ", "é", "\x7f\x01", "i" * 1024],
)
def test_odd_ids_are_kept_and_removed(name, make_engine, make_rows):
    engine = make_engine()
    engine.add(make_rows(name, "other"))
    assert engine.digests_of([name]) == {name: ""}
    assert engine.remove([name]) == 1
    assert list(by_id(engine)) == ["other"]


@pytest.mark.parametrize("ranking", ["expected", "mean"])
@pytest.mark.parametrize("family", ["gaussian", "von-mises-fisher"])
def test_embeddings_come_back(family, ranking, draw, server):
    batch = draw.gaussians(5, 6) if family == "gaussian" else draw.spheres(5, 6)
    batch = batch.to(torch.float32)
    engine = create_engine(server.fresh_url(), Space(family, 6, ranking), {}, kind="flat")
    engine.add(Rows(tuple("abcde"), batch, ("",) * 5, ({},) * 5))
    found = engine.rows(keys_of(engine))
    engine.close()
    order = [found.ids.index(name) for name in "abcde"]
    torch.testing.assert_close(found.embeddings.mean[order], batch.mean)
    torch.testing.assert_close(found.embeddings.spread[order], batch.spread)


def test_rows_keep_the_order_of_the_keys(make_engine, make_rows):
    engine = make_engine()
    engine.add(make_rows("a", "b", "c"))
    keys = keys_of(engine)
    assert engine.rows(keys[::-1]).ids == engine.rows(keys).ids[::-1]
    assert len(engine.rows([])) == 0


def test_keys_of_rows_that_were_removed_meanwhile_are_an_error(make_engine, make_rows):
    engine = make_engine()
    engine.add(make_rows("a", "b"))
    keys = keys_of(engine)
    engine.remove(["a"])
    with pytest.raises(EngineError, match="1 of 2 rows were removed"):
        engine.rows(keys)


def test_a_known_id_is_replaced(make_engine, make_rows):
    engine = make_engine()
    engine.add(make_rows("a", "b", digest="0" * 64, metadata={"old": 1}))
    new = make_rows("a", metadata={"new": 2})
    engine.add(new)
    found = engine.rows(keys_of(engine))
    row = found.ids.index("a")
    assert engine.count() == 2
    assert found.metadata[row] == {"new": 2}
    assert found.digests[row] == ""
    assert torch.equal(found.embeddings.mean[row], new.embeddings.mean[0])


def test_no_rows_are_a_no_op(make_engine, make_rows):
    engine = make_engine()
    engine.add(make_rows(count=0))
    assert engine.count() == 0
    assert engine.remove([]) == 0


def test_removing_counts_known_ids_and_passes_over_others(make_engine, make_rows):
    engine = make_engine()
    engine.add(make_rows("a", "b", "c"))
    assert engine.remove(["a", "c", "c", "unknown", "half \ud83d", "a\0"]) == 2
    assert list(by_id(engine)) == ["b"]


def test_digests_lead_to_ids_and_back(make_engine, make_rows):
    engine = make_engine()
    engine.add(make_rows("b", "a", digest="0" * 64))
    engine.add(make_rows("c", digest="f" * 64))
    engine.add(make_rows("d"))
    assert engine.digests_of(["a", "c", "d", "e"]) == {"a": "0" * 64, "c": "f" * 64, "d": ""}
    assert engine.ids_of(["0" * 64, "1" * 64, "f" * 64, ""]) == {"0" * 64: "a", "f" * 64: "c"}


def test_variances_have_bounds(make_engine, make_rows):
    engine = make_engine()
    assert engine.var_range() == (float("inf"), 0.0)
    rows = make_rows(count=20)
    engine.add(rows)
    low, high = rows.embeddings.spread.double().aminmax()
    assert engine.var_range() == (low, high)


def test_space_facts_and_kind_are_there_when_opened_again(make_engine, reopen):
    facts = {"fingerprint": "é😀", "number": 1e20, "nested": {"list": [1, 1.0, None, True]}}
    make_engine(kind="ivf", **facts)
    opened = reopen()
    assert opened.space == Space("gaussian", 8)
    assert repr(dict(opened.facts)) == repr(facts)
    assert opened.describe()["asked_kind"] == "ivf"


def test_many_rows_go_in_several_statements(make_engine, make_rows, monkeypatch):
    monkeypatch.setattr("surefind.engines.pgvector.writing.NUMBERS_AT_ONCE", 50)
    monkeypatch.setattr("surefind.engines.pgvector.reading.NUMBERS_AT_ONCE", 100)
    engine = make_engine()
    rows = make_rows(count=23)
    engine.add(rows)
    blocks = list(engine.scan())
    assert [len(block.keys) for block in blocks] == [11, 11, 1]
    found = engine.rows([key for block in blocks for key in block.keys])
    order = [found.ids.index(name) for name in rows.ids]
    assert torch.equal(found.embeddings.mean[order], rows.embeddings.mean)


@pytest.mark.parametrize("dim", [1, 1600, 5000, 15_999])
def test_vectors_of_any_width_are_kept_beside_large_metadata(dim, make_engine, make_rows):
    engine = make_engine(dim=dim)
    rows = make_rows("i" * 1024, dim=dim, digest="0" * 64, metadata={"text": "xyz" * 3000})
    engine.add(rows)
    found = engine.rows(keys_of(engine))
    assert torch.equal(found.embeddings.mean, rows.embeddings.mean)
    assert found.metadata == rows.metadata


def test_embeddings_of_another_model_are_refused(make_engine, make_rows):
    engine = make_engine(dim=8)
    with pytest.raises(InvalidArgument, match="gaussian of 8 dimensions"):
        engine.add(make_rows("a", dim=7))
