"""Tables and vector indexes: what is refused, when an index is built, what `verify` finds."""

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from unittest.mock import Mock

import numpy as np
import pytest

from surefind.engines.base import EngineError, Space
from surefind.engines.pgvector import engine as pgvector
from surefind.engines.pgvector import schema
from surefind.engines.pgvector.connection import SQL, to_sent
from surefind.engines.registry import create_engine, open_engine
from surefind.errors import InvalidArgument, SurefindError

SPACE = Space("gaussian", 8)
FAULTS = {
    "var = 'NaN'": "1 row has a variance that is not positive and finite.",
    "digest = 'abc'": "1 row has a digest that is not a sha256.",
    "metadata = '[1]'": "1 row has metadata that are not fields with values.",
}


@pytest.fixture
def table(url) -> str:
    return url.rpartition("=")[2]


def failing(call, *arguments) -> SurefindError:
    with pytest.raises(SurefindError) as caught:
        call(*arguments)
    return caught.value


def test_nothing_is_created_over_a_table_of_others(server, url, table):
    server.run(f"CREATE TABLE {table} (mine text)", f"INSERT INTO {table} VALUES ('kept')")
    assert "there is a table" in failing(create_engine, url, SPACE, {}).problem
    assert "there is no index" in failing(open_engine, url).problem
    assert server.run(f"SELECT * FROM {table}") == [("kept",)]


@pytest.mark.parametrize(("layout", "fix"), [(0, "create the index again"), (2, "update surefind")])
def test_tables_of_another_version_are_refused(layout, fix, server, url, make_engine, table):
    make_engine()
    server.run(f"UPDATE surefind_indexes SET schema = {layout} WHERE name = '{table}'")
    error = failing(open_engine, url)
    assert f"layout {layout}" in error.problem and error.fix == fix


def test_too_many_dimensions_are_refused_or_warned_about(url, make_engine):
    with pytest.raises(EngineError, match="16000"):
        create_engine(url, Space("gaussian", 16_000), {})
    with pytest.raises(InvalidArgument, match="flat or auto"):
        create_engine(url, Space("gaussian", 2000), {}, kind="hnsw")
    assert "too wide for a graph" in make_engine(dim=2000).warnings[0]


def test_a_reader_may_search_but_not_write(server, table, make_engine, make_rows):
    make_engine().add(make_rows("a", "b"))
    server.run("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN")
    server.run(f"GRANT SELECT ON {table}, surefind_indexes TO reader")
    engine = open_engine(server.url(user="reader", table=table))
    assert engine.search(np.zeros((1, 9), np.float32), 2).keys.shape == (1, 2)
    for error in (failing(engine.add, make_rows("c")), failing(engine.remove, ["a"])):
        assert "permission denied" in error.problem and error.fix is None
    assert engine.count() == 2
    engine.close()
    server.run(f"REVOKE ALL ON {table}, surefind_indexes FROM reader", "DROP ROLE reader")


def test_an_index_that_was_made_anew_is_not_mistaken_for_the_old_one(make_engine, make_rows, server, table, url):
    old = make_engine(model="old")
    server.run(f"DROP TABLE {table}")
    assert "there is no index" in failing(open_engine, url).problem
    new = make_engine(model="new")
    for call in (lambda: old.add(make_rows("a")), old.refresh, old.count):
        assert "made anew meanwhile" in failing(call).problem
    assert new.count() == 0


def test_a_table_that_was_dropped_by_hand_is_missed(server, table, make_engine):
    engine = make_engine()
    server.run(f"DROP TABLE {table}")
    assert "does not exist" in failing(lambda: list(engine.scan())).problem
    make_engine()  # the line in the list that was left behind is in nobody's way


def test_indexes_can_be_created_at_once_in_a_new_database(server):
    database = server.database()
    names = ["first", "second", "third", "same", "same", "same"]
    start = Barrier(len(names))

    def make(name: str) -> str:
        start.wait(10)
        try:
            create_engine(server.url(database, table=name), SPACE, {}).close()
        except EngineError as error:
            return error.problem.partition(" already")[0]
        return name

    with ThreadPoolExecutor(len(names)) as threads:
        made = sorted(threads.map(make, names))
    assert made == ["first", "same", "second", *["there is a table same"] * 2, "third"]


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_rows_added_after_compacting_are_found(kind, make_engine, make_rows):
    engine = make_engine(kind=kind)
    for rows in (0, 300):
        engine.add(make_rows(count=rows))
        engine.compact()
        assert engine.search(np.zeros((3, 9), np.float32), 5).keys.shape == (3, min(5, rows))
    late = make_rows("late")
    engine.add(late)
    (keys,) = engine.search(engine.space.gallery_vectors(late.embeddings), 1).keys
    assert engine.rows(keys).ids == ("late",)


def plan(engine) -> str:
    """How the server would search, with its indexes named for their method."""
    asked = {"vectors": to_sent(np.zeros((1, engine.space.width), np.float32)), "k": 5}
    columns = pgvector.OWN_COLUMNS
    order = SQL("{}" if engine._index else "({}) + 0").format(columns["distance"])
    with engine._connections.transaction() as session:
        session.run("SET LOCAL enable_seqscan = off")
        names = {**columns, "where": SQL("true"), "order": order}
        lines = session.run("EXPLAIN " + pgvector.NEAREST, asked, **names)
        names = session.run("SELECT relname, amname FROM pg_class JOIN pg_am ON pg_am.oid = relam")
    used = "\n".join(line for (line,) in lines)
    return "\n".join(method for name, method in names if f"using {name} " in used)


@pytest.mark.parametrize(("kind", "method"), [("hnsw", "hnsw"), ("ivf", "ivfflat")])
def test_searches_use_an_index_once_it_was_seen(kind, method, make_engine, make_rows, reopen):
    engine = make_engine(kind=kind)
    engine.add(make_rows(count=500))
    reopen().compact()
    assert engine.exact and method not in plan(engine)
    assert engine.refresh()
    assert not engine.exact and method in plan(engine)


def test_auto_builds_a_graph_when_there_are_many_rows(make_engine, make_rows, monkeypatch):
    engine = make_engine(kind="auto")
    engine.add(make_rows(count=60))
    engine.compact()
    assert engine.exact
    monkeypatch.setattr(schema, "MANY", 60)
    engine.compact()
    assert engine.describe()["kind"] == "hnsw"
    assert not engine.exact


def test_cells_are_made_anew_when_the_rows_have_outgrown_them(make_engine, make_rows, monkeypatch):
    monkeypatch.setattr(schema, "lists_for", lambda rows: rows // 9)
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
    engine, other, build = make_engine(kind="hnsw"), reopen(), Mock(wraps=schema.build)
    engine.add(make_rows(count=3000))
    monkeypatch.setattr(schema, "build", build)
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(one.compact) for one in (engine, other)]:
            done.result()
    build.assert_called_once()
    assert not engine.exact and not other.exact


@pytest.mark.parametrize("change", FAULTS)
def test_a_bad_row_is_found(change, make_engine, make_rows, server, table):
    engine = make_engine()
    engine.add(make_rows(count=10))
    server.run(f"UPDATE {table} SET {change} WHERE id = 'row 3'")
    assert engine.verify() == [FAULTS[change]]


def test_an_index_that_is_not_valid_is_found(make_engine, make_rows, server, table):
    engine = make_engine(kind="hnsw")
    engine.add(make_rows(count=10))
    engine.compact()
    server.run(
        "UPDATE pg_index SET indisvalid = false"
        f" WHERE indrelid = '{table}'::regclass AND indexrelid::regclass::text LIKE '%vector%'"
    )
    (sentence,) = engine.verify()
    assert re.fullmatch(r"The index \w*vector\w* is not valid: REINDEX it.", sentence)
    assert engine.refresh() and engine.exact
    engine.compact()
    assert not engine.exact and engine.verify() == []


def test_rows_that_others_removed_are_counted_anew_when_compacting(make_engine, make_rows, server, table):
    engine = make_engine()
    engine.add(make_rows(count=10))
    server.run(f"DELETE FROM {table} WHERE id < 'row 4'")
    assert engine.verify() == ["10 rows are noted where 6 are: compact the index."]
    engine.compact()
    assert engine.verify() == []
    assert engine.count() == 6


def test_damage_on_the_disk_is_found(make_engine, make_rows, server, table):
    if server.run("SHOW data_checksums") != [("on",)]:
        pytest.skip("this server writes no checksums")
    engine = make_engine()
    engine.add(make_rows(count=100))
    ((path,),) = server.run("CHECKPOINT", f"SELECT pg_relation_filepath('{table}')")
    server.stop()
    file = server.data / path
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(content)
    server.start()
    (sentence,) = engine.verify()
    assert sentence.startswith("The server found damage: invalid page in block 0")
    server.run(f"DROP TABLE {table}")


def test_rows_that_wait_for_compacting_are_warned_about(make_engine, make_rows, monkeypatch):
    monkeypatch.setattr(schema, "SLOW", 50)
    engine = make_engine(kind="hnsw")
    engine.add(make_rows(count=50))
    with engine._connections.borrowed() as session:
        session.run("ANALYZE")
    engine.refresh()
    assert "compact the index" in engine.warnings[0]
    engine.compact()
    assert engine.warnings == ()
