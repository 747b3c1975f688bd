"""Files appear whole and durably or not at all; JSON and documents carry their checksum."""

import errno
import json
import os
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
from child_processes import received, start
from stores import flip_bit

from surefind import storage
from surefind.errors import InvalidFile
from surefind.storage import (
    CorruptFile,
    Documents,
    dump_checksummed_json,
    load_checksummed_json,
    make_writable,
    sync_folder,
    whole_file,
    write_whole,
)

FACTS = {"schema": 1, "kind": "flat", "facts": {"a": [1, 2.5, "ü", None, True]}}
WRITTEN = dump_checksummed_json(FACTS)


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"older and longer")
    write_whole(path, memoryview(b"newer"))
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]


def test_two_that_write_one_file_at_a_time_both_succeed(tmp_path):
    """As threads of one process do; the last to finish is what stays."""
    path = tmp_path / "file"
    with whole_file(path) as first:
        first.write(b"first")
        with whole_file(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_file_then_name_then_folder_reach_the_disk(tmp_path, monkeypatch):
    steps: list[str] = []
    rename = Path.replace
    monkeypatch.setattr(os, "fsync", lambda _: steps.append("file"))
    monkeypatch.setattr(storage, "fsync", lambda _: steps.append("folder"))
    monkeypatch.setattr(Path, "replace", lambda *to: (steps.append("name"), rename(*to))[1])
    write_whole(tmp_path / "file", b"content")
    assert steps == ["file", "name", "folder"]
    make_writable(tmp_path / "new")
    make_writable(tmp_path / "new")
    assert steps[3:] == ["folder"]  # the name of the new folder in its parent


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(errno.EIO, "broken"), ValueError()])
def test_what_is_not_finished_is_removed(tmp_path, stop: BaseException):
    path = tmp_path / "file"
    write_whole(path, b"older")

    def write_half() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise stop

    with pytest.raises(type(stop)):
        write_half()
    assert path.read_bytes() == b"older" and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_synced_is_an_error_unless_it_never_can(tmp_path, monkeypatch):
    def failing(code: int):
        def fail(_: int) -> None:
            raise OSError(code, os.strerror(code))

        return fail

    monkeypatch.setattr(storage, "fsync", failing(errno.EINVAL))
    sync_folder(tmp_path)
    monkeypatch.setattr(storage, "fsync", failing(errno.EIO))
    with pytest.raises(InvalidFile, match="cannot write"):
        write_whole(tmp_path / "file", b"content")


def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(InvalidFile, match="No such file") as raised:
        write_whole(tmp_path / "none" / "file", b"")
    assert "writable" in raised.value.fix


def refuses(path: Path, content: bytes, match: str = "damaged") -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptFile, match=match):
        load_checksummed_json(path)


def test_checksummed_json_comes_back_and_every_changed_bit_is_detected(tmp_path):
    path, content = tmp_path / "some.json", bytearray(WRITTEN)
    path.write_bytes(content)
    assert load_checksummed_json(path) == FACTS
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        refuses(path, bytes(content))
        content[bit // 8] ^= 1 << bit % 8


def test_json_without_the_right_checksum_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "some.json"
    otherwise_written = json.dumps(json.loads(WRITTEN), indent=1).encode()
    for content in (b"", b"{}", b"[]", b'{"checksum": 3}', b"[" * 100_000, b"\xff"):
        refuses(path, content)
    for content in (b'{"a": ' + b"9" * 9999 + b"}", WRITTEN[:-1], WRITTEN + b"\n"):
        refuses(path, content)
    refuses(path, otherwise_written, "checksum")
    monkeypatch.setattr(storage, "LARGEST", 100)
    refuses(path, bytes(101), "too large")
    with pytest.raises(CorruptFile, match="missing"):
        load_checksummed_json(tmp_path / "none")


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
    with pytest.raises(CorruptFile, match=r"a.large is not as it was written"):
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
        with pytest.raises(CorruptFile, match=r"some\.db is damaged"):
            use("a")
    assert len(documents.problems()) == 1


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidFile, match="cannot write .*file"):
        Documents(tmp_path / "file" / "some.db").write(CONTENT)


def write_with_limit(path: str, limit: int, pipe: Connection) -> None:
    """In a child: write to a disk that takes no file longer than `limit`."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        Documents(Path(path)).write({"a.large": bytes(200_000), "b": None})
        pipe.send("done")
    except InvalidFile as error:
        pipe.send(error.problem)


def test_wherever_a_write_fails_the_old_ones_or_the_new_ones_are_whole(documents):
    results = []
    for limit in range(0, 400_000, 40_000):
        child, pipe = start(write_with_limit, str(documents.path), limit)
        results += received(pipe)
        child.join()
        new = CONTENT | {"a.large": bytes(200_000)}
        del new["b"]
        assert documents.read("") == (new if results[-1] == "done" else CONTENT)
        assert results[-1] == "done" or "cannot write" in results[-1]
        assert documents.problems() == []
        documents.write(CONTENT)
    assert results[0] != "done" and results[-1] == "done"


def write_on(path: str, pipe: Connection) -> None:
    """In a child: write until it is killed."""
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
