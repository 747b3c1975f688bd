"""milvus:// URLs: what they say, and that nothing secret is ever shown."""

import pytest

from surefind.engines.milvus.url import Place, parse
from surefind.errors import InvalidArgument

SECRET = "s3cr3t"


def test_a_full_url_says_everything():
    place = parse("milvus://ann:p%40ss%2Fw%3Frd@db.example:1234/art?collection=birds&timeout=5")
    assert place == Place(
        host="db.example",
        port=1234,
        user="ann",
        password="p@ss/w?rd",
        database="art",
        collection="birds",
        timeout=5.0,
    )


@pytest.mark.parametrize(
    "url", ["milvus://localhost", "milvus://localhost/", "milvus://localhost?"]
)
def test_what_is_left_out_has_defaults(url):
    assert parse(url) == Place(host="localhost")
    assert parse(url).server == "localhost:19530"


def test_tls_is_asked_for():
    assert parse("milvus://h?secure=true").secure
    assert not parse("milvus://h?secure=false").secure


def test_an_ipv6_address_keeps_its_brackets():
    assert parse("milvus://[::1]:19531").server == "[::1]:19531"


def test_the_password_is_not_shown():
    place = parse(f"milvus://ann:{SECRET}@h:1/d?collection=c&secure=true")
    assert SECRET not in repr(place)
    assert place.shown == "milvus://ann@h:1/d?collection=c&secure=true"


def test_what_is_shown_can_be_read_again():
    place = parse("milvus://a%2Fb@h:1/d?collection=c")
    assert parse(place.shown) == place


@pytest.mark.parametrize(
    "url",
    [
        "milvus://",
        "milvus://:1",
        f"milvus://ann:{SECRET}@",
        f"milvus://ann:{SECRET}@h:port",
        f"milvus://ann:{SECRET}@h:0",
        f"milvus://ann:{SECRET}@h:99999",
        f"milvus://ann:{SECRET}/x@h/d",
        f"milvus://ann:{SECRET}?x@h/d",
        f"milvus://ann:{SECRET}#x@h/d",
        f"milvus://ann:{SECRET}@x@h/d",
        f"milvus://ann:{SECRET}@[::1/d",
        f"milvus://ann:{SECRET}@h st/d",
        f"milvus://ann:{SECRET}@h/d#x",
        f"https://ann:{SECRET}@h/d",
    ],
)
def test_what_cannot_be_read_is_refused_without_showing_it(url):
    with pytest.raises(InvalidArgument, match="percent-encode") as refused:
        parse(url)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", ["1st", "a-b", "a.b", "a b", "ä", "x" * 65, "a/b", "a;b", "a'b"])
def test_names_are_of_letters_digits_and_underscores(name):
    for url in (f"milvus://h/{name}", f"milvus://h/d?collection={name}"):
        with pytest.raises(InvalidArgument, match="letters, digits and _"):
            parse(url)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("colection=x", "did you mean collection="),
        ("table=x", "collection="),
        ("collection=a&collection=b", "each setting once"),
        ("secure=yes", "true or false"),
        ("timeout=0", "seconds"),
        ("timeout=nan", "seconds"),
        ("timeout=soon", "seconds"),
        ("timeout=1e9", "seconds"),
    ],
)
def test_wrong_settings_are_named(query, message):
    with pytest.raises(InvalidArgument, match=message):
        parse(f"milvus://h/d?{query}")
