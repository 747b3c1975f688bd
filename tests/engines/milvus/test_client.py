"""URLs without their secrets, and errors that quote the server's first line."""

import importlib
import re
import socket

import pytest
from galleries import random_rows

from surefind.engines.base import EngineError, Space
from surefind.engines.milvus import client
from surefind.engines.milvus.client import CollectionUrl, NotLoaded, parse, server_error
from surefind.engines.registry import create_engine, open_engine
from surefind.errors import InvalidArgument

PLACE = parse("milvus://ann:s3cr3t@h:1/d?collection=c")
SPACE = Space("gaussian", 4)
SECRET = "s3cr3t"


def test_a_full_url_says_everything():
    place = parse("milvus://ann:p%40ss%2Fw%3Frd@db.example:1234/art?collection=birds&timeout=5")
    assert place == CollectionUrl(
        "db.example:1234", user="ann", password="p@ss/w?rd", database="art", collection="birds", timeout=5.0
    )
    for url in ("milvus://localhost", "milvus://localhost/", "milvus://localhost?"):
        assert parse(url) == CollectionUrl("localhost:19530")
    assert parse("milvus://[::1]:19531").server == "[::1]:19531"


def test_the_password_is_not_shown_and_the_rest_can_be_read_again():
    place = parse(f"milvus://a%2Fb:{SECRET}@h:1/d?collection=c&secure=true")
    assert SECRET not in repr(place)
    assert place.shown == "milvus://a%2Fb@h:1/d?collection=c&secure=true"
    assert parse(place.shown).shown == place.shown


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
    "query",
    [
        *("colection=x", "collection=a&collection=b", "secure=yes", "timeout=0", "timeout=nan"),
        *("timeout=soon", "timeout=1e9", "timeout=3601"),
    ],
)
def test_wrong_settings_are_refused(query):
    with pytest.raises(InvalidArgument, match="at most collection=name"):
        parse(f"milvus://h/d?{query}")


class RpcError(Exception):
    """As gRPC's."""

    def details(self) -> str:
        return "token ann:s3cr3t is wrong\nmore"


class MilvusError(Exception):
    """As pymilvus's."""

    def __init__(self, code: int, message: str) -> None:
        self.code, self.message = code, message


def test_an_error_is_its_first_line_without_the_password():
    error = server_error(MilvusError(7, "odd s3cr3t\ntraceback"), PLACE)
    assert error.problem == f"{PLACE.shown}: odd ***" and error.fix is None
    assert isinstance(server_error(MilvusError(101, "not loaded"), PLACE), NotLoaded)


def test_grpc_says_why_a_connection_failed():
    error = MilvusError(2, "Fail connecting to server")
    error.__cause__ = RpcError()
    raised = server_error(error, PLACE)
    assert raised.problem == f"{PLACE.shown}: token ann:*** is wrong" and "call again" in raised.fix


def test_a_missing_package_is_named(monkeypatch):
    def missing(name: str):
        raise ImportError(name)

    monkeypatch.setattr(client, "import_module", missing)
    with pytest.raises(EngineError, match=re.escape("pip install 'surefind[milvus]'")):
        open_engine("milvus://127.0.0.1:1")


def test_a_server_that_is_down_is_named_and_nothing_printed(capfd):
    pytest.importorskip("pymilvus")
    with pytest.raises(EngineError, match="Connection refused") as refused:
        open_engine("milvus://ann:s3cr3t@127.0.0.1:1/default")
    assert "milvus://ann@127.0.0.1:1/default" in str(refused.value)
    assert "s3cr3t" not in str(refused.value)
    assert capfd.readouterr() == ("", "")


def test_a_server_that_says_nothing_is_given_up(monkeypatch):
    pytest.importorskip("pymilvus")
    monkeypatch.setattr(client, "CONNECTING", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(EngineError, match="start the server"):
            open_engine(f"milvus://127.0.0.1:{silent.getsockname()[1]}")


@pytest.mark.milvus
@pytest.mark.parametrize("who", ["root:wr0ng@", "nobody:wr0ng@", ""])
def test_a_wrong_password_is_refused(milvus, who):
    url = milvus.url.replace(f"{milvus.user}:{milvus.password}@", who)
    with pytest.raises(EngineError, match="auth|username") as refused:
        open_engine(url)
    assert "wr0ng" not in str(refused.value)


@pytest.mark.milvus
def test_a_missing_collection_is_named(milvus):
    with pytest.raises(EngineError, match=r"collection not found.*nothing"):
        open_engine(f"{milvus.url}?collection=nothing")


@pytest.mark.milvus
def test_what_is_there_is_not_created_again(milvus, engine):
    engine.add(random_rows(3, 4, 0))
    with pytest.raises(EngineError, match="already"):
        create_engine(f"{milvus.url}?collection=kept", SPACE, {})
    assert engine.count() == 3


@pytest.mark.milvus
def test_a_collection_of_others_is_left_alone(milvus):
    pymilvus = importlib.import_module("pymilvus")
    place = parse(f"{milvus.url}?collection=foreign")
    other = pymilvus.MilvusClient(f"http://{place.server}", user=place.user, password=place.password)
    other.create_collection("foreign", dimension=5)
    with pytest.raises(EngineError, match="not made by surefind"):
        open_engine(f"{milvus.url}?collection=foreign")
    with pytest.raises(EngineError, match="already"):
        create_engine(f"{milvus.url}?collection=foreign", SPACE, {})
    assert other.has_collection("foreign")
    other.drop_collection("foreign")
    other.close()
