"""What an index, its tables and its server refuse: each has its error with a remedy."""

import numpy as np
import pytest

from surefind.engines.engine import EngineError
from surefind.engines.opening import create_engine, open_engine
from surefind.engines.pgvector.failures import MEANINGS
from surefind.engines.space import Space
from surefind.errors import InvalidArgument, SurefindError

SPACE = Space("gaussian", 8)


def failing(call, *arguments) -> SurefindError:
    with pytest.raises(SurefindError) as caught:
        call(*arguments)
    return caught.value


def test_nothing_is_created_over_an_index(make_engine, make_rows, url):
    engine = make_engine(owner="first")
    engine.add(make_rows("a"))
    assert "there is a table" in failing(create_engine, url, SPACE, {"owner": "second"}).problem
    assert engine.count() == 1
    assert not engine.refresh()


def test_nothing_is_created_over_a_table_of_others(server, url):
    table = url.rpartition("=")[2]
    server.run(f"CREATE TABLE {table} (mine text)", f"INSERT INTO {table} VALUES ('kept')")
    assert "there is a table" in failing(create_engine, url, SPACE, {}).problem
    assert "there is no index" in failing(open_engine, url).problem
    assert server.run(f"SELECT * FROM {table}") == [("kept",)]


def test_an_index_that_is_not_there_is_answered_with_a_near_name(server):
    database = server.database()
    assert "create it first" in failing(open_engine, server.url(database)).fix
    create_engine(server.url(database, table="products"), SPACE, {}).close()
    error = failing(open_engine, server.url(database, table="product"))
    assert "there is no index product" in error.problem and "?table=products" in error.fix


@pytest.mark.parametrize(("schema", "fix"), [(0, "create the index again"), (2, "update surefind")])
def test_tables_of_another_version_are_refused(schema, fix, server, url, make_engine):
    make_engine()
    table = url.rpartition("=")[2]
    server.run(f"UPDATE surefind_indexes SET schema = {schema} WHERE name = '{table}'")
    error = failing(open_engine, url)
    assert f"layout {schema}" in error.problem and error.fix == fix


def test_too_many_dimensions_are_refused(url):
    with pytest.raises(InvalidArgument, match="at most 16000 numbers"):
        create_engine(url, Space("gaussian", 16_000), {})


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_too_many_dimensions_for_a_graph_are_refused(kind, url):
    with pytest.raises(InvalidArgument, match="flat or auto") as caught:
        create_engine(url, Space("gaussian", 2000), {}, kind=kind)
    assert "kind='flat'" in caught.value.fix


def test_a_reader_may_search_but_not_write(server, url, make_engine, make_rows):
    make_engine().add(make_rows("a", "b"))
    table = url.rpartition("=")[2]
    server.run("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN")
    server.run(f"GRANT SELECT ON {table}, surefind_indexes TO reader")
    engine = open_engine(server.url(user="reader", table=table))
    assert engine.search(np.zeros((1, 9), np.float32), 2).keys.shape == (1, 2)
    for error in (failing(engine.add, make_rows("c")), failing(engine.remove, ["a"])):
        assert "permission denied" in error.problem and "GRANT" in error.fix
    assert engine.count() == 2
    engine.close()
    server.run(f"REVOKE ALL ON {table}, surefind_indexes FROM reader", "DROP ROLE reader")


def test_a_server_that_takes_no_writes_is_said_to_be(url, make_engine, make_rows):
    make_engine()
    engine = open_engine(url + "&options=-c%20default_transaction_read_only%3Don")
    assert "read-only replica" in failing(engine.add, make_rows("a")).fix
    assert engine.count() == 0
    engine.close()


@pytest.mark.parametrize("state", MEANINGS)
def test_every_known_refusal_has_its_remedy(state, make_engine):
    engine = make_engine()

    def refused() -> None:
        with engine._connections.transaction() as connection:
            code = state.ljust(5, "0")
            connection.execute(f"DO $$ BEGIN RAISE 'no' USING ERRCODE = '{code}'; END $$")

    assert failing(refused).fix == MEANINGS[state][1]
    assert engine.count() == 0


def test_an_unknown_refusal_shows_its_code(make_engine):
    engine = make_engine()

    def refused() -> None:
        with engine._connections.borrowed() as connection:
            connection.execute("SELECT 1 / 0")

    error = failing(refused)
    assert "division by zero" in error.problem and "22012" in error.fix


def test_a_closed_engine_says_so(make_engine):
    engine = make_engine()
    engine.close()
    engine.close()
    assert "is closed" in failing(engine.count).problem


def test_a_dropped_index_is_gone_and_its_name_is_free(make_engine, make_rows, url):
    make_engine().drop()
    assert "there is no index" in failing(open_engine, url).problem
    assert make_engine().count() == 0


def test_an_index_that_was_made_anew_is_not_mistaken_for_the_old_one(
    make_engine, make_rows, reopen
):
    old = make_engine(model="old")
    reopen().drop()
    new = make_engine(model="new")
    for call in (lambda: old.add(make_rows("a")), old.refresh, old.drop):
        assert "made anew meanwhile" in failing(call).problem
    assert new.count() == 0


def test_a_table_that_was_dropped_by_hand_is_missed(server, url, make_engine):
    engine = make_engine()
    server.run(f"DROP TABLE {url.rpartition('=')[2]}")
    error = failing(engine.var_range)
    assert isinstance(error, EngineError) and "is gone" in error.problem
    make_engine()  # the line in the list that was left behind is in nobody's way
