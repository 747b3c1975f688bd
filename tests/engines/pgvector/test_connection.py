"""URLs, passwords, servers that refuse, connections that end or die."""

import subprocess
import sys
import time
import traceback

import pytest

from surefind.engines.base import EngineError, Space
from surefind.engines.pgvector import schema
from surefind.engines.pgvector.connection import DatabaseError, parse, server_errors
from surefind.engines.registry import create_engine, open_engine
from surefind.errors import InvalidArgument, SurefindError

SPACE = Space("gaussian", 8)
SECRET = "s3cr3t"
PASSWORD = "right/password"


def test_a_url_names_server_database_and_table():
    place = parse("pgvector://ann:a%2Fb%40c@db.example:5433/photos?sslmode=require&table=birds")
    expected = {"user": "ann", "password": "a/b@c", "host": "db.example", "port": "5433"}
    assert expected.items() <= place.parameters.items()
    assert (place.parameters["dbname"], place.parameters["sslmode"]) == ("photos", "require")
    assert place.name == "birds"
    assert parse("pgvector:///photos?host=%2Frun%2Fpg").parameters["host"] == "/run/pg"
    assert parse("pgvector://db/photos").name == "surefind"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"pgvector://ann:{SECRET}@db:1/photos?table=birds", "pgvector://ann@db:1/photos?table=birds"),
        (f"pgvector://ann:x?{SECRET}@db/photos", "pgvector://ann@db/photos"),
        (f"pgvector://ann@db/photos?password={SECRET}", "pgvector://ann@db/photos"),
        (f"pgvector://db/x?sslpassword={SECRET}&table=b", "pgvector://db/x?table=b"),
        (f"pgvector://a%40b:{SECRET}@/x?host=/run/pg&port=7", "pgvector://a%40b@/x?host=/run/pg&port=7"),
    ],
)
def test_a_place_is_shown_without_secrets(url: str, shown: str):
    place = parse(url)
    assert place.shown == shown
    assert SECRET not in repr(place)
    assert parse(shown).shown == shown


@pytest.mark.parametrize(
    "url",
    [
        f"pgvector://ann:{SECRET}/x@db/photos",
        f"pgvector://ann:x/{SECRET}@db/photos",
        f"pgvector://ann:x@{SECRET}@db/photos",
        f"pgvector://ann:{SECRET}%zz@db/photos",
        f"pgvector://ann:{SECRET}@db:port/photos",
        f"pgvector://ann:{SECRET}@[::1/photos",
        f"pgvector://{SECRET}:x",
        f"pgvector://db/photos?p%61ssword={SECRET}",
        "pgvector://db/photos?tabel=birds",
        "pgvector://db/photos?sslkeylogfile=/tmp/keys",
        "pgvector://db/photos?replication=1",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_showing_any_of_it(url: str):
    with pytest.raises(InvalidArgument) as caught:
        parse(url)
    assert SECRET not in str(caught.value)
    assert "percent-encode" in caught.value.fix
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "table",
    [
        *("", "Birds", "2birds", "a.b", 'a"; DROP TABLE b; --', "ä", "a%00", "%3Bdrop", "a" * 49),
        *("surefind_indexes", "a\n", "a&table=b"),
    ],
)
def test_hostile_table_names_are_refused(table: str):
    with pytest.raises(InvalidArgument, match="table: expected one name"):
        parse(f"pgvector://db/photos?table={table}")


def failing(call, *arguments) -> SurefindError:
    with pytest.raises(SurefindError) as caught:
        call(*arguments)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
    return caught.value


@pytest.mark.parametrize("package", ["psycopg", "psycopg_pool"])
def test_a_missing_package_is_named_with_its_extra(package):
    script = (
        f"import sys; sys.modules['{package}'] = None\n"
        "from surefind.engines.registry import open_engine\n"
        "from surefind.engines.base import EngineError\n"
        "try: open_engine('pgvector://db/photos')\n"
        "except EngineError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'surefind[pgvector]'" in done.stdout


def test_a_server_that_is_down_is_said_to_be_at_once_and_without_a_log(server, capfd):
    url = f"pgvector://ann:{PASSWORD.replace('/', '%2F')}@127.0.0.1:1/photos"
    begun = time.monotonic()
    problem = failing(open_engine, url).problem
    assert problem.startswith("pgvector://ann@127.0.0.1:1/photos: ")
    assert "Connection refused" in problem or "connection failed" in problem
    assert time.monotonic() - begun < 5
    assert capfd.readouterr().err == ""


@pytest.fixture(scope="module")
def guarded(server) -> str:
    """A database with a user who needs a password; returns its name."""
    database = server.database()
    server.run(f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'")
    server.run("CREATE EXTENSION vector", "GRANT CREATE ON SCHEMA public TO guarded", database=database)
    return database


def test_a_wrong_password_is_said_to_be(server, guarded):
    error = failing(open_engine, server.url(guarded, user="guarded", password="wrong"))
    assert "password authentication failed" in error.problem and "wrong" not in str(error)


@pytest.mark.parametrize("password", ["", PASSWORD])
def test_a_password_in_the_environment_or_the_url_is_not_described(server, guarded, password, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "" if password else PASSWORD)
    url = server.url(guarded, user="guarded", password=password, table=f"kept_{len(password)}")
    engine = create_engine(url, SPACE, {}, kind="flat")
    description = engine.describe()
    assert PASSWORD not in str(description) and "%2F" not in str(description)
    assert description["place"].startswith("pgvector://guarded@127.0.0.1:")
    engine.close()


def test_an_error_is_its_first_line_without_the_password():
    with pytest.raises(EngineError) as caught, server_errors(parse("pgvector://ann:hush@db/x")):
        raise DatabaseError("a secret: hush\nDETAIL: a row")
    assert caught.value.problem == "pgvector://ann@db/x: a secret: ***"


def test_an_old_pgvector_is_refused(server):
    database = server.database()
    server.run("CREATE EXTENSION vector", "UPDATE pg_extension SET extversion = '0.7.4'", database=database)
    error = failing(create_engine, server.url(database), SPACE, {})
    assert "0.7.4, which is too old" in error.problem and "ALTER EXTENSION" in error.fix


def test_an_extension_that_was_dropped_is_missed_at_opening(server):
    database = server.database()
    create_engine(server.url(database), SPACE, {}).close()
    server.run("DROP EXTENSION vector CASCADE", database=database)
    assert "no extension pgvector" in failing(open_engine, server.url(database)).problem


def test_an_engine_that_is_forgotten_closes_its_connections(server, url):
    statement = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'surefind'"
    engine = create_engine(url, SPACE, {})
    engine.count()
    assert server.run(statement) == [(1,)]
    del engine
    deadline = time.monotonic() + 20
    while server.run(statement) != [(0,)]:  # a server forgets a connection a moment after it was closed
        assert time.monotonic() < deadline
        time.sleep(0.01)


def end_connections(server) -> None:
    server.run("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'surefind'")


def test_a_connection_that_dies_between_calls_is_replaced_unseen(make_engine, make_rows, server):
    engine = make_engine()
    engine.add(make_rows("a"))
    end_connections(server)
    assert engine.count() == 1
    server.stop()
    server.start()
    engine.add(make_rows("b"))
    assert engine.count() == 2


def test_an_add_whose_connection_dies_leaves_nothing_and_can_be_repeated(make_engine, make_rows, server, monkeypatch):
    engine = make_engine()
    rows, note_change = make_rows(count=20), schema.note_change

    def dying(*arguments, **named):
        end_connections(server)
        return note_change(*arguments, **named)

    monkeypatch.setattr(schema, "note_change", dying)
    assert "call again" in failing(engine.add, rows).fix
    monkeypatch.undo()
    assert engine.count() == 0
    engine.add(rows)
    assert engine.count() == 20
