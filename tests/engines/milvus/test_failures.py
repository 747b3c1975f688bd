"""Every way to fail gives one sentence and a remedy, soon, and no password."""

import importlib
import re
import socket

import numpy as np
import pytest
from galleries import random_rows

from surefind.engines.engine import EngineError
from surefind.engines.milvus import driver
from surefind.engines.milvus.failures import NotLoaded, explained
from surefind.engines.milvus.url import parse
from surefind.engines.opening import create_engine, open_engine
from surefind.engines.space import Space
from surefind.errors import InvalidArgument

PLACE = parse("milvus://ann:s3cr3t@h:1/d?collection=c")
SPACE = Space("gaussian", 4)


class Status:
    def __init__(self, name: str) -> None:
        self.name = name


class RpcError(Exception):
    """As gRPC's: it has no `code`, but a method that tells it."""

    def __init__(self, name: str) -> None:
        self.status = Status(name)

    def code(self) -> Status:
        return self.status

    def details(self) -> str:
        return "token ann:s3cr3t\nmore"


class MilvusError(Exception):
    """As pymilvus's."""

    def __init__(self, code: int, message: str) -> None:
        self.code, self.message = code, message


@pytest.mark.parametrize(
    ("error", "problem", "fix"),
    [
        (RpcError("UNAUTHENTICATED"), "refused the user or the password", "percent-encoded"),
        (RpcError("PERMISSION_DENIED"), "may not keep rows", "ask the owner"),
        (RpcError("UNAVAILABLE"), "cannot be reached", "start it"),
        (RpcError("DEADLINE_EXCEEDED"), "took too long to keep rows", "timeout="),
        (RpcError("RESOURCE_EXHAUSTED"), "had no room", "raise its limits"),
        (RpcError("INTERNAL"), "refused to keep rows", "server's log"),
        (MilvusError(100, "gone"), "no collection 'c' in the database 'd'", "create"),
        (MilvusError(800, "database not found[database=d]"), "no database 'd'", "create it"),
        (MilvusError(9, "memory quota exhausted"), "had no room", "memory"),
        (MilvusError(1, "Retry timeout: 60s"), "took too long", "timeout="),
        (MilvusError(5, "PrivilegeUpsert: permission deny for ann"), "may not", "ask the owner"),
        (MilvusError(7, "odd\ntraceback"), "refused to keep rows: odd", "server's log"),
    ],
)
def test_an_error_is_explained(error, problem, fix):
    said = explained(error, PLACE, "keep rows")
    assert problem in said.problem and fix in said.fix
    assert "s3cr3t" not in str(said)
    assert "\n" not in said.problem


def test_the_cause_counts_where_the_error_says_little():
    error = MilvusError(2, "Fail connecting to server")
    error.__cause__ = RpcError("UNAUTHENTICATED")
    assert "password" in explained(error, PLACE, "connect").problem


def test_errors_that_cause_themselves_come_to_an_end():
    error = RpcError("INTERNAL")
    error.__cause__ = error
    assert "refused" in explained(error, PLACE, "search").problem


def test_a_collection_that_is_not_loaded_is_told_apart():
    assert isinstance(explained(MilvusError(101, "not loaded"), PLACE, "search"), NotLoaded)


def test_a_missing_package_is_named(monkeypatch):
    def missing(name: str):
        raise ImportError(name)

    monkeypatch.setattr(driver, "import_module", missing)
    with pytest.raises(EngineError, match=re.escape("pip install 'surefind[milvus]'")):
        open_engine("milvus://127.0.0.1:1")


def test_a_server_that_is_down_is_named():
    pytest.importorskip("pymilvus")
    with pytest.raises(EngineError, match="cannot be reached") as refused:
        open_engine("milvus://ann:s3cr3t@127.0.0.1:1/default")
    assert "milvus://ann@127.0.0.1:1/default" in str(refused.value)
    assert "s3cr3t" not in str(refused.value)


def test_a_server_that_says_nothing_is_given_up(monkeypatch):
    pytest.importorskip("pymilvus")
    monkeypatch.setattr(driver, "CONNECTING", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(EngineError, match="cannot be reached|took too long"):
            open_engine(f"milvus://127.0.0.1:{silent.getsockname()[1]}")


def test_errors_are_not_printed_by_the_library(capfd):
    pytest.importorskip("pymilvus")
    with pytest.raises(EngineError):
        open_engine("milvus://127.0.0.1:1")
    assert capfd.readouterr() == ("", "")


@pytest.mark.milvus
@pytest.mark.parametrize("who", ["root:wr0ng@", "nobody:wr0ng@", ""])
def test_a_wrong_password_is_refused(milvus, who):
    url = milvus.url.replace(f"{milvus.user}:{milvus.password}@", who)
    with pytest.raises(EngineError, match="refused the user or the password") as refused:
        open_engine(url)
    assert "wr0ng" not in str(refused.value)


@pytest.mark.milvus
def test_a_missing_collection_is_named(milvus):
    with pytest.raises(EngineError, match="no collection 'nothing' in the database 'default'"):
        open_engine(f"{milvus.url}?collection=nothing")


@pytest.mark.milvus
def test_a_missing_database_is_named(milvus):
    url = milvus.url.replace("/default", "/nowhere")
    with pytest.raises(EngineError, match="database 'nowhere'"):
        open_engine(url)
    with pytest.raises(EngineError, match="no database 'nowhere'"):
        create_engine(url, SPACE, {})


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
    client = pymilvus.MilvusClient(
        f"http://{place.server}", user=place.user, password=place.password
    )
    client.create_collection("foreign", dimension=5)
    with pytest.raises(EngineError, match="not made by surefind"):
        open_engine(f"{milvus.url}?collection=foreign")
    with pytest.raises(EngineError, match="already"):
        create_engine(f"{milvus.url}?collection=foreign", SPACE, {})
    assert client.has_collection("foreign")
    client.drop_collection("foreign")
    client.close()


@pytest.mark.milvus
def test_a_closed_engine_says_so(make):
    engine = make()
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.count()


@pytest.mark.milvus
def test_rows_that_are_gone_are_named(engine):
    engine.add(random_rows(3, 4, 0))
    with pytest.raises(EngineError, match="1 of 2 rows are gone.*'nobody'"):
        engine.rows(np.array(["row-1", "nobody"], dtype=object))


def test_too_many_dimensions_are_refused():
    with pytest.raises(InvalidArgument, match="at most 32768"):
        create_engine("milvus://127.0.0.1:1", Space("gaussian", 32768), {})


@pytest.mark.parametrize("facts", [{"a": object()}, {"a": float("nan")}, {"a": "x" * 200_000}])
def test_facts_that_cannot_be_kept_are_refused(facts):
    with pytest.raises(InvalidArgument, match="JSON"):
        create_engine("milvus://127.0.0.1:1", SPACE, facts)
