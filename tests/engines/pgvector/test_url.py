"""URLs: what they mean, what is refused, and that passwords are never shown."""

import pytest

from surefind.engines.pgvector.url import parse
from surefind.errors import InvalidArgument

SECRET = "s3cr3t"


def test_a_url_names_server_database_and_table():
    place = parse("pgvector://ann:pw@db.example:5433/photos?table=birds")
    expected = {"user": "ann", "password": "pw", "host": "db.example", "port": "5433"}
    assert expected.items() <= place.parameters.items()
    assert (place.parameters["dbname"], place.table) == ("photos", "birds")


def test_the_table_is_surefind_unless_named():
    assert parse("pgvector://db/photos").table == "surefind"


def test_parameters_of_libpq_are_passed_on():
    place = parse("pgvector:///photos?host=%2Frun%2Fpg&sslmode=require&connect_timeout=3")
    expected = {"host": "/run/pg", "sslmode": "require", "connect_timeout": "3"}
    assert expected.items() <= place.parameters.items()


def test_percent_encoded_passwords_are_decoded():
    assert parse("pgvector://ann:a%2Fb%40c@db/photos").parameters["password"] == "a/b@c"


def test_a_question_mark_in_a_password_does_not_start_the_parameters():
    place = parse("pgvector://ann:a?b@db/photos?table=birds")
    assert (place.parameters["password"], place.table) == ("a?b", "birds")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            f"pgvector://ann:{SECRET}@db:1/photos?table=birds",
            "pgvector://ann@db:1/photos?table=birds",
        ),
        (f"pgvector://ann@db/photos?password={SECRET}", "pgvector://ann@db/photos?table=surefind"),
        (f"pgvector://db/photos?sslpassword={SECRET}", "pgvector://db/photos?table=surefind"),
        (
            f"pgvector://a%40b:{SECRET}@/x?host=/run/pg&port=7",
            "pgvector://a%40b@/x?host=/run/pg&port=7&table=surefind",
        ),
    ],
)
def test_a_place_is_shown_without_secrets(url: str, shown: str):
    place = parse(url)
    assert place.shown == shown
    assert SECRET not in repr(place)


def test_what_is_shown_names_the_same_place():
    url = "pgvector://a%40b@/x?host=/run/pg&port=7&table=birds"
    assert parse(parse(url).shown) == parse(url)


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
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_showing_any_of_it(url: str):
    with pytest.raises(InvalidArgument) as caught:
        parse(url)
    assert SECRET not in str(caught.value)
    assert "percent-encode" in caught.value.fix
    assert caught.value.__cause__ is None


def test_a_misspelt_parameter_is_answered_with_the_near_one():
    with pytest.raises(InvalidArgument, match="did you mean table="):
        parse("pgvector://db/photos?tabel=birds")


@pytest.mark.parametrize("name", ["sslkeylogfile=/tmp/keys", "replication=1", "load=x"])
def test_parameters_that_libpq_does_not_know_or_that_do_harm_are_refused(name: str):
    with pytest.raises(InvalidArgument, match="connection parameters"):
        parse(f"pgvector://db/photos?{name}")


@pytest.mark.parametrize(
    "table",
    [
        *("", "Birds", "birds-2", "2birds", "a b", "a.b", 'a"; DROP TABLE b; --', "a'b", "ä"),
        *("a%00", "%3Bdrop", "a" * 49, "surefind_indexes", "a\n"),
    ],
)
def test_hostile_table_names_are_refused(table: str):
    with pytest.raises(InvalidArgument, match="table: expected a name"):
        parse(f"pgvector://db/photos?table={table}")


def test_two_tables_are_refused():
    with pytest.raises(InvalidArgument, match="one table"):
        parse("pgvector://db/photos?table=a&table=b")
