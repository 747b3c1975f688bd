"""Graphs and cells: when they are built, and that searches go by them."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier

import numpy as np
import pytest

from surefind.engines.pgvector import searching, vector_index
from surefind.engines.pgvector.conditions import clause
from surefind.engines.pgvector.driver import SQL, to_sent

KINDS = ("flat", "hnsw", "ivf")


@pytest.mark.parametrize("kind", ["auto", *KINDS])
def test_an_empty_engine_finds_nothing_before_and_after_compacting(kind, make_engine):
    engine = make_engine(kind=kind)
    for _ in range(2):
        assert engine.search(np.zeros((3, 9), np.float32), 5).keys.shape == (3, 0)
        engine.compact()


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_rows_added_after_compacting_are_found(kind, make_engine, make_rows):
    engine = make_engine(kind=kind)
    engine.add(make_rows(count=300))
    engine.compact()
    late = make_rows("late")
    engine.add(late)
    (keys,) = engine.search(engine.space.stored(late.embeddings), 1).keys
    assert engine.rows(keys).ids == ("late",)


def test_an_engine_that_is_exact_stays_so_when_another_builds_a_graph(
    make_engine, make_rows, reopen
):
    engine = make_engine(kind="hnsw")
    engine.add(make_rows(count=500))
    assert engine.exact
    reopen().compact()
    assert engine.exact
    assert "hnsw" not in plan(engine)
    assert engine.refresh()
    assert not engine.exact
    assert "hnsw" in plan(engine)


def plan(engine) -> str:
    """How the server would search, with its indexes named for their method."""
    statement = searching.nearest(engine._place, clause(None), engine._index)
    vectors = to_sent(np.zeros((1, engine.space.width), np.float32))
    with engine._connections.transaction() as connection:
        connection.execute("SET LOCAL enable_seqscan = off")
        lines = connection.execute(
            SQL("EXPLAIN {}").format(statement), {"vectors": vectors, "k": 5}
        ).fetchall()
        names = connection.execute(
            "SELECT relname, amname FROM pg_class JOIN pg_am ON pg_am.oid = relam"
        ).fetchall()
    used = "\n".join(line for (line,) in lines)
    return "\n".join(method for name, method in names if f"using {name} " in used)


@pytest.mark.parametrize(("kind", "method"), [("hnsw", "hnsw"), ("ivf", "ivfflat")])
def test_searches_go_by_the_index_that_was_asked_for(kind, method, make_engine, make_rows):
    engine = make_engine(kind=kind)
    engine.add(make_rows(count=100))
    assert method not in plan(engine)
    engine.compact()
    assert method in plan(engine)


def test_auto_builds_a_graph_when_there_are_many_rows(make_engine, make_rows, monkeypatch):
    engine = make_engine(kind="auto")
    engine.add(make_rows(count=60))
    engine.compact()
    assert engine.exact
    monkeypatch.setattr("surefind.engines.pgvector.vector_index.MANY", 60)
    engine.compact()
    assert engine.describe()["kind"] == "hnsw"
    assert not engine.exact


def test_cells_are_made_anew_when_the_rows_have_outgrown_them(make_engine, make_rows, monkeypatch):
    monkeypatch.setattr(
        "surefind.engines.pgvector.vector_index.lists_for", lambda count: count // 9
    )
    engine = make_engine(kind="ivf")
    engine.add(make_rows(count=90))
    engine.compact()
    assert engine._index.lists == 10
    engine.add(make_rows(count=360))
    engine.compact()
    assert engine._index.lists == 40
    (many,) = engine.search(np.zeros((1, 9), np.float32), 500).keys
    assert len(many) == 360


def test_compacting_twice_at_once_builds_one_graph(make_engine, make_rows, reopen, monkeypatch):
    engine = make_engine(kind="hnsw")
    engine.add(make_rows(count=300))
    looks, both_have_looked, present = count(), Barrier(2), vector_index.present

    def look(*arguments):
        found = present(*arguments)
        if next(looks) < 2:
            both_have_looked.wait(10)
        return found

    def build(*arguments, **others):
        built.append(1)
        original(*arguments, **others)

    built, original, other = [], vector_index.build, reopen()
    monkeypatch.setattr(vector_index, "present", look)
    monkeypatch.setattr(vector_index, "build", build)
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(one.compact) for one in (engine, other)]:
            done.result()
    assert len(built) == 1
    assert not engine.exact and not other.exact
