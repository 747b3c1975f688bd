"""Exhaustive search of the mapped vectors, and conditions, against the plainest ways."""

from dataclasses import replace

import numpy as np
import pytest
from galleries import random_embeddings
from stores import DIM, QUERIES, SPACE, filled, made, opened, some_rows

from surefind.engines.base import Rows
from surefind.engines.embedded import database, vectors
from surefind.engines.embedded.engine import EmbeddedEngine
from surefind.engines.embedded.vectors import Selection, search_rows
from surefind.engines.filters import Condition, Where

MANY = SPACE.queries(random_embeddings(400, DIM, seed=7)).vectors
ROWS = SPACE.gallery_vectors(random_embeddings(300, DIM, seed=1))


def by_hand(query, k: int, mask) -> tuple[np.ndarray, np.ndarray]:
    distance = ((query[:, None].astype("f8") - ROWS[None]) ** 2).sum(-1)
    distance[:, ~mask] = np.inf
    order = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distance, order, 1), order


def test_vectors_are_mapped_and_cannot_be_written(place):
    filled(place)
    found = opened(place)._now.vectors
    assert not found.flags.writeable and not found.flags.owndata


def test_released_vectors_are_read_again(place):
    filled(place)
    engine = opened(place)
    before = engine.search(MANY, 5)
    engine.release()
    for column, again in zip(before, engine.search(MANY, 5), strict=True):
        assert np.array_equal(column, again)


@pytest.mark.parametrize("query", [QUERIES[:1], MANY], ids=["one", "many"])
@pytest.mark.parametrize("k", [1, 10, 300, 1000])
def test_all_vectors_are_searched(query, k: int):
    found = search_rows(ROWS, query, k, None)
    distance, _ = by_hand(query, k, np.ones(300, bool))
    np.testing.assert_allclose(found.distance, distance, atol=1e-5)
    # Which of two equally near rows comes first is a matter of rounding, and of the processor.
    every = np.square(query[:, None].astype(float) - ROWS[None]).sum(axis=2)
    np.testing.assert_allclose(np.take_along_axis(every, found.rows, 1), distance, atol=1e-5)
    assert all(len(set(rows)) == len(rows) for rows in found.rows.tolist())


@pytest.mark.parametrize("query", [QUERIES[:1], MANY], ids=["one", "many"])
@pytest.mark.parametrize("share", [1 / 3, 0.9])
@pytest.mark.parametrize("blocks", [1, 5])
@pytest.mark.parametrize("first", [0, 100])
def test_only_chosen_vectors_are_searched(monkeypatch, query, share, blocks: int, first: int):
    monkeypatch.setattr(vectors, "GATHERED_BYTES", ROWS.nbytes // 3 // blocks)
    monkeypatch.setattr(vectors, "SPARE", 2)  # some queries are left short
    mask = np.random.default_rng(0).random(300) < share
    found = search_rows(ROWS, query, 7, Selection(mask), first=first)
    distance, rows = by_hand(query, 7, mask & (np.arange(300) >= first))
    assert np.array_equal(found.rows, rows)
    np.testing.assert_allclose(found.distance, distance, atol=1e-5)


def test_more_neighbours_than_chosen_rows_are_not_made_up():
    mask = np.zeros(300, bool)
    mask[[5, 7]] = True
    for query in (QUERIES[:1], MANY):
        found = search_rows(ROWS, query, 10, Selection(mask))
        assert found.rows.shape == (len(query), 2)
        assert set(found.rows.ravel()) == {5, 7}


def test_numbers_of_a_condition_are_compared_exactly(place):
    """With the variance, and with numbers in metadata that many decimal texts stand for."""
    engine, rows = made(place), some_rows(200, 1)
    numbers = np.random.default_rng(0).standard_normal(200).tolist()
    engine.add(Rows(rows.ids, rows.embeddings, rows.digests, tuple({"x": n} for n in numbers)))
    (block,) = engine.scan()
    values = (float(block.var[3]), float(block.var[5]))
    assert list(next(engine.scan(Where((Condition("var", "in", values),)))).keys) == [3, 5]
    for number in numbers:
        assert engine.count(Where((Condition("x", "=", number),))) == 1
    assert engine.count(Where((Condition("x", "in", tuple(numbers)),))) == 200


def test_a_condition_is_looked_up_once_per_version(place, monkeypatch):
    engine, asked = filled(place), []
    real = database.sql_of
    monkeypatch.setattr(database, "sql_of", lambda condition: (asked.append(condition), real(condition))[1])
    for written in ("label=a", "label=a", "label=b", "label!=a", "label!=b", "label=a"):
        engine.search(QUERIES, 3, Where.parse(written))
    assert [one.op for one in asked] == ["=", "=", ">="]  # every text once, for both !=
    engine.add(some_rows(1, 5, prefix="new"))
    engine.count(Where.parse("label=a"))
    assert len(asked) == 4


def test_the_masks_of_filters_have_a_limit_in_bytes(place, monkeypatch):
    monkeypatch.setattr(database, "SELECTION_BYTES", 8 * 1060)
    engine = filled(place)
    for year in range(20):
        engine.count(Where.parse(f"year<{year}"))
    assert len(engine._now._selections) == 8


def plan_of(engine: EmbeddedEngine, written: str) -> str:
    query, values = database.sql_of(Where.parse(written).conditions[0])
    with engine._now._rows_of_version() as db:
        return str(db.execute(f"EXPLAIN QUERY PLAN SELECT key FROM rows WHERE {query}", values).fetchall())


def test_the_label_is_looked_up_by_an_index(place):
    assert "rows_by_label" in plan_of(filled(place), "label=a")


@pytest.mark.parametrize("field", ["year", "Year", "weight"])
def test_a_field_has_an_index_from_its_first_use_on(place, monkeypatch, field):
    monkeypatch.setattr(database, "INDEXED_FROM", 1)
    engine = filled(place)
    rows = some_rows(3, 9, prefix="odd")
    engine.add(replace(rows, metadata=({"Year": 2001}, {"Year": "2001"}, {"Year": True})))
    where = Where.parse(f"{field}>=1")
    assert "SCAN rows" in plan_of(engine, f"{field}>=1")
    before, wanted = (
        engine.revision,
        sum(where.holds(facts, 1) for facts in engine.rows(next(engine.scan()).keys).metadata),
    )
    assert engine.count(where) == wanted > 0
    assert "SEARCH rows USING INDEX field_" in plan_of(opened(place), f"{field}>=1")
    assert engine.revision == before and engine.verify() == []


def test_a_reader_that_may_not_write_or_would_wait_makes_no_index(place, monkeypatch):
    monkeypatch.setattr(database, "INDEXED_FROM", 1)
    engine = filled(place)
    with database.transaction(place, "write"):
        assert engine.count(Where.parse("year>=2000")) > 0
    monkeypatch.setattr(database.os, "access", lambda *_: False)
    assert engine.count(Where.parse("year>=2001")) > 0
    assert "SCAN rows" in plan_of(engine, "year>=2000")
