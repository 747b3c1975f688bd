"""Small files and documents that carry their checksum."""

import json
import resource
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
from children import received, start
from stores import flip_bit

from surefind import storage
from surefind.errors import InvalidFile
from surefind.storage import Damaged, Documents, read_small, seal, unseal

PATH = Path("some.json")
FACTS = {"schema": 1, "kind": "flat", "facts": {"a": [1, 2.5, "ü", None, True]}}


def test_facts_come_back_as_they_were_sealed():
    assert unseal(PATH, seal(FACTS)) == FACTS


def test_every_changed_bit_is_seen():
    content = bytearray(seal(FACTS))
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damaged):
            unseal(PATH, bytes(content))
        content[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b'{"checksum": 3}',
        b"[" * 100_000,
        b"\xff",
        b'{"a": ' + b"9" * 9999 + b"}",
        seal(FACTS)[:-1],
        seal(FACTS) + b"\n",
        json.dumps(json.loads(seal(FACTS)), indent=1).encode(),  # the same facts, otherwise written
    ],
)
def test_whatever_was_not_sealed_is_refused(content: bytes):
    with pytest.raises(Damaged):
        unseal(PATH, content)


def test_a_file_of_endless_length_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "LARGEST", 100)
    (tmp_path / "long").write_bytes(bytes(101))
    with pytest.raises(Damaged, match="too large"):
        read_small(tmp_path / "long")


def test_a_file_that_is_not_there_is_missing(tmp_path):
    with pytest.raises(Damaged, match="missing"):
        read_small(tmp_path / "none")


# documents in SQLite


CONTENT = {"a.json": b"{}", "a.large": bytes(range(256)) * 300, "b": b""}


@pytest.fixture
def documents(tmp_path) -> Documents:
    made = Documents(tmp_path / "new" / "some.db")
    made.write(CONTENT)
    return made


def test_documents_come_back_as_they_were_written(documents):
    assert documents.read("") == CONTENT
    assert documents.read("a") == {name: CONTENT[name] for name in ("a.json", "a.large")}
    assert documents.problems() == []


def test_where_nothing_was_written_nothing_is_read_and_no_file_is_made(tmp_path):
    documents = Documents(tmp_path / "some.db")
    assert (documents.read(""), documents.digests(""), documents.problems()) == ({}, [], [])
    assert list(tmp_path.iterdir()) == []


def test_a_write_replaces_and_removes_what_it_names(documents):
    before = documents.digests("")
    documents.write({"a.json": b"[]", "a.large": None})
    assert documents.read("") == {"a.json": b"[]", "b": b""}
    assert documents.digests("b") == [its for its in before if its[0] == "b"]
    assert documents.digests("a") != [its for its in before if its[0] == "a.json"]


def test_a_document_beyond_the_limit_of_a_value_is_kept_in_parts(documents, monkeypatch):
    monkeypatch.setattr(storage, "_PART", 1000)
    documents.write(CONTENT)
    assert documents.read("") == CONTENT
    with closing(sqlite3.connect(documents.path)) as db, db:
        db.execute("DELETE FROM documents WHERE part = 76")
    with pytest.raises(Damaged, match=r"a.large is not as it was written"):
        documents.read("a")


def test_no_flipped_bit_goes_unseen(documents):
    content = documents.path.read_bytes()
    outcomes = []
    for seed in range(300):
        documents.path.write_bytes(content)
        flip_bit(documents.path, seed=seed)
        try:
            found = documents.read("")
        except InvalidFile:
            outcomes.append("refused")
        else:
            outcomes.append("right" if found == CONTENT else "wrong")
            assert found == CONTENT or documents.problems()
    assert outcomes.count("refused") > 200


def test_what_is_no_database_is_damaged(documents):
    documents.path.write_bytes(b"something else, as long as the header of SQLite is, and longer")
    for use in (documents.read, documents.digests, lambda name: documents.write({name: b""})):
        with pytest.raises(Damaged, match=r"some\.db is damaged"):
            use("a")
    assert len(documents.problems()) == 1


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidFile, match="cannot write .*file"):
        Documents(tmp_path / "file" / "some.db").write(CONTENT)


def write_with_limit(path: str, limit: int, pipe: Connection) -> None:
    """What a child does: a write on a disk that takes no file longer than `limit`."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        Documents(Path(path)).write({"a.large": bytes(200_000), "b": None})
        pipe.send("done")
    except InvalidFile as error:
        pipe.send(error.problem)


def test_wherever_a_write_fails_the_old_ones_or_the_new_ones_are_whole(documents):
    told = []
    for limit in range(0, 400_000, 40_000):
        child, pipe = start(write_with_limit, str(documents.path), limit)
        told += received(pipe)
        child.join()
        new = CONTENT | {"a.large": bytes(200_000)}
        del new["b"]
        assert documents.read("") == (new if told[-1] == "done" else CONTENT)
        assert told[-1] == "done" or "cannot write" in told[-1]
        assert documents.problems() == []
        documents.write(CONTENT)
    assert told[0] != "done" and told[-1] == "done"


def write_on(path: str, pipe: Connection) -> None:
    """What a child does until it is killed."""
    documents, number = Documents(Path(path)), 0
    while True:
        number += 1
        pipe.send(number)
        documents.write(dict.fromkeys(("one", "two"), b"%d" % number * 50000))


def test_a_writer_killed_at_any_moment_leaves_documents_of_one_write(documents):
    random = np.random.default_rng(0)
    for _ in range(20):
        child, pipe = start(write_on, str(documents.path))
        assert pipe.poll(60)
        time.sleep(0.05 * random.random())
        child.kill()
        child.join()
        received(pipe)
        found = documents.read("")
        assert found.pop("one", None) == found.pop("two", None)
        assert found == CONTENT and documents.problems() == []


def test_writers_take_turns_and_one_that_waits_too_long_says_for_what(documents, monkeypatch):
    with ThreadPoolExecutor(4) as pool:
        writes = [{f"c{n}": b"%d" % n, "last": b"%d" % n} for n in range(20)]
        list(pool.map(documents.write, writes))
    assert len(documents.read("c")) == 20
    monkeypatch.setattr(storage, "PATIENCE", 0.05)
    with closing(sqlite3.connect(documents.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InvalidFile, match=r"another process is writing to .*some\.db"):
            documents.write(CONTENT)
        assert documents.read("b") == {"b": b""}
