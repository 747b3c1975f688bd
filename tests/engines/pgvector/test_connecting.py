"""What can go wrong before there is an index: each has its error, and no password is shown."""

import subprocess
import sys
import traceback
from functools import partial

import pytest

from surefind.engines.opening import create_engine, open_engine
from surefind.engines.pgvector.driver import DatabaseError
from surefind.engines.pgvector.failures import connecting, working
from surefind.engines.pgvector.url import parse
from surefind.engines.space import Space
from surefind.errors import SurefindError

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


@pytest.mark.parametrize("explain", [connecting, partial(working, lost=True)])
def test_a_password_that_an_error_repeats_is_blotted_out(explain):
    error = explain(DatabaseError("a secret: hush\nDETAIL: x"), parse("pgvector://ann:hush@db/x"))
    assert error.problem.endswith("a secret: ***")


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
