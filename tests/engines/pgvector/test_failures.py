"""Whatever goes wrong, one error says what and what to do; passwords are never shown."""

import subprocess
import sys
import traceback

import numpy as np
import pytest

from surefind.engines.engine import EngineError
from surefind.engines.opening import create_engine, open_engine
from surefind.engines.pgvector.failures import MEANINGS
from surefind.engines.space import Space
from surefind.errors import InvalidArgument, SurefindError

SPACE = Space("gaussian", 8)
PASSWORD = "right/password"


@pytest.fixture(scope="module")
def database(server) -> str:
    """Of its own: roles and settings do not reach other tests."""
    return server.database()


@pytest.fixture(scope="module")
def guarded(server, database) -> str:
    """A user who needs a password; returns its name."""
    server.run(f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'")
    server.run(
        "CREATE EXTENSION vector", "GRANT CREATE ON SCHEMA public TO guarded", database=database
    )
    return "guarded"


def failing(call, *arguments, **named) -> SurefindError:
    with pytest.raises(SurefindError) as caught:
        call(*arguments, **named)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
    return caught.value


def test_a_missing_package_is_named_with_its_extra():
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from surefind.engines.opening import open_engine\n"
        "from surefind.engines.engine import EngineError\n"
        "try: open_engine('pgvector://db/photos')\n"
        "except EngineError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "pip install 'surefind[pgvector]'" in done.stdout


def test_a_server_that_is_down_is_said_to_be(server):
    url = f"pgvector://ann:{PASSWORD.replace('/', '%2F')}@127.0.0.1:1/photos"
    error = failing(open_engine, url)
    assert "cannot connect to pgvector://ann@127.0.0.1:1/photos" in error.problem
    assert "start the server" in error.fix


def test_a_wrong_password_is_said_to_be(server, database, guarded):
    error = failing(open_engine, server.tcp_url(database, user=guarded, password="wrong"))
    assert "password authentication failed" in error.problem and "wrong" not in str(error)
    assert "correct the password" in error.fix


def test_a_missing_password_is_said_to_be(server, database, guarded):
    assert "give the password" in failing(open_engine, server.tcp_url(database, user=guarded)).fix


def test_a_password_may_come_from_the_environment(server, database, guarded, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    engine = create_engine(server.tcp_url(database, user=guarded), SPACE, {}, kind="flat")
    assert engine.count() == 0
    engine.drop()


def test_a_password_is_not_described(server, database, guarded):
    url = server.tcp_url(database, user=guarded, password=PASSWORD)
    engine = create_engine(url, SPACE, {}, kind="flat")
    description = engine.describe()
    assert PASSWORD not in str(description) and "%2F" not in str(description)
    assert description["place"].startswith("pgvector://guarded@127.0.0.1:")
    engine.drop()


def test_a_missing_database_is_said_to_be(server):
    error = failing(open_engine, server.url("nowhere"))
    assert "no such database" in error.problem and "createdb nowhere" in error.fix


def test_a_user_who_may_not_install_pgvector_is_told_who_can(server):
    database = server.database()
    server.run("CREATE ROLE humble LOGIN")
    server.run("GRANT CREATE ON SCHEMA public TO humble", database=database)
    error = failing(create_engine, server.url(database, user="humble"), SPACE, {})
    assert "may not install it" in error.problem and "CREATE EXTENSION vector" in error.fix


def test_a_server_without_pgvector_is_said_to_be(server):
    database = server.database()
    try:
        server.run(f"ALTER DATABASE {database} SET extension_control_path = '/nowhere'")
    except Exception as error:  # noqa: BLE001 - before version 18 there is no such setting
        pytest.skip(str(error))
    error = failing(create_engine, server.url(database), SPACE, {})
    assert "does not offer pgvector" in error.problem and "install pgvector" in error.fix
    assert server.run("SELECT to_regclass('surefind_indexes')", database=database) == [(None,)]


def test_an_old_pgvector_is_refused(server):
    database = server.database()
    server.run(
        "CREATE EXTENSION vector", "UPDATE pg_extension SET extversion = '0.7.4'", database=database
    )
    error = failing(create_engine, server.url(database), SPACE, {})
    assert "0.7.4, which is too old" in error.problem and "ALTER EXTENSION" in error.fix


def test_an_extension_that_was_dropped_is_missed_at_opening(server):
    database = server.database()
    create_engine(server.url(database), SPACE, {}).close()
    server.run("DROP EXTENSION vector CASCADE", database=database)
    assert "no extension pgvector" in failing(open_engine, server.url(database)).problem


def test_a_database_that_cannot_keep_every_text_is_refused(server):
    server.run("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    error = failing(create_engine, server.url("latin"), SPACE, {})
    assert "LATIN1" in error.problem and "UTF8" in error.fix


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


def test_an_index_that_is_not_there_is_answered_with_a_near_name(server, database):
    assert "create it first" in failing(open_engine, server.url(server.database())).fix
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


def test_auto_warns_that_there_will_be_no_graph(make_engine):
    assert "too wide for a graph" in make_engine(dim=2000).warnings[0]


def test_an_engine_in_order_has_no_warnings(make_engine, make_rows):
    engine = make_engine(kind="hnsw")
    engine.add(make_rows(count=50))
    assert engine.refresh() is False
    assert engine.warnings == ()


def test_rows_that_wait_for_compacting_are_warned_about(make_engine, make_rows, monkeypatch):
    monkeypatch.setattr("surefind.engines.pgvector.about.SLOW", 50)
    engine = make_engine(kind="hnsw")
    engine.add(make_rows(count=50))
    with engine._connections.borrowed() as connection:
        connection.execute("ANALYZE")
    engine.refresh()
    assert "compact the index" in engine.warnings[0]
    engine.compact()
    assert engine.warnings == ()


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
    error = failing(engine.count)
    assert isinstance(error, EngineError) and "is gone" in error.problem
    make_engine()  # the line in the list that was left behind is in nobody's way
