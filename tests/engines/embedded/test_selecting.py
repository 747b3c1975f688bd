"""Filters on a segment against the conditions themselves, row by row."""

import pytest
from stores import QUERIES, filled, made, some_rows

from surefind.engines.embedded import segment as segments
from surefind.engines.embedded import selecting
from surefind.engines.embedded.damage import Damaged
from surefind.engines.embedded.selecting import name_of, satisfying
from surefind.engines.engine import Rows
from surefind.engines.where import Condition, Where

WRITTEN = [
    ["label=a"],
    ["label!=a"],
    ["label in a,b"],
    ["label>=b"],
    ["year<2003"],
    ["year in 2001,2004"],
    ["weight=0.5"],
    ["weight!=1"],
    ["blurred=true"],
    ["blurred!=true"],
    ["label=a", "year>2002", "var<0.1"],
    ["var>=0.05"],
    ["var!=0.1"],
    ["nothing=1"],
    [],
]


@pytest.mark.parametrize("written", WRITTEN, ids=" and ".join)
@pytest.mark.parametrize("at_once", [7, 4096])
def test_a_filter_keeps_what_satisfies_it(place, monkeypatch, written: list[str], at_once: int):
    monkeypatch.setattr(selecting, "_ROWS_AT_ONCE", at_once)
    where, engine = Where.parse(written), made(place)
    engine.add(some_rows(50, 1))
    wanted = [
        key
        for block in engine.scan()
        for key, row, var in zip(
            block.keys, engine.rows(block.keys).metadata, block.var, strict=True
        )
        if where.holds(row, var)
    ]
    assert [key for block in engine.scan(where) for key in block.keys] == wanted
    assert engine.count(where) == len(wanted)
    found = engine.search(QUERIES, 50, where)
    assert found.keys.shape == (5, len(wanted))
    assert all(set(keys) == set(wanted) for keys in found.keys)


def test_variances_in_a_list_are_compared_exactly(place):
    engine = made(place)
    engine.add(some_rows(9, 1))
    (block,) = engine.scan()
    values = (float(block.var[3]), float(block.var[5]))
    where = Where((Condition("var", "in", values),))
    assert list(next(engine.scan(where)).keys) == [3, 5]


def test_true_is_remembered_apart_from_one(place):
    engine = made(place)
    rows = some_rows(2, 1)
    engine.add(Rows(rows.ids, rows.embeddings, rows.digests, ({"a": 1}, {"a": True})))
    for _ in range(2):
        assert list(next(engine.scan(Where((Condition("a", "=", 1),)))).keys) == [0]
        assert list(next(engine.scan(Where((Condition("a", "=", True),)))).keys) == [1]
    assert name_of(Where((Condition("a", "=", 1),))) != name_of(Where((Condition("a", "=", True),)))


def test_metadata_is_read_once_for_a_filter_and_again_for_another(place, monkeypatch):
    engine, read = filled(place), []
    monkeypatch.setattr(
        segments, "satisfying", lambda *given: (read.append(given[0]), satisfying(*given))[1]
    )
    parts = len(engine._session.snapshot.parts)
    for _ in range(3):
        engine.search(QUERIES, 3, Where.parse(["label=a"]))
    assert len(read) == parts
    engine.add(some_rows(1, 5, prefix="new"))
    engine.count(Where.parse(["label=a"]))
    assert len(read) == parts + 1  # of the new segment only


def test_the_memory_of_filters_is_bounded(place):
    engine = filled(place)
    for year in range(100):
        engine.count(Where.parse([f"year<{year}"]))
    part = engine._session.snapshot.parts[0]
    assert len(part._selections) <= 32 and len(part.segment._masks) <= 32


def test_metadata_that_is_no_metadata_is_damage(place, monkeypatch):
    engine = filled(place)
    monkeypatch.setattr(selecting, "parsed", lambda metadata: [[] for _ in range(len(metadata))])
    with pytest.raises(Damaged, match="metadata is not readable"):
        engine.count(Where.parse(["label=a"]))


def test_a_filter_that_keeps_nothing_finds_nothing(place):
    engine = filled(place)
    found = engine.search(QUERIES, 3, Where.parse(["label=none"]))
    assert found.keys.shape == (5, 0) and found.vectors.shape == (5, 0, 7)
    assert list(engine.scan(Where.parse(["label=none"]))) == []
