"""Versions follow each other whole; readers see one of them, writers clean up behind it."""

import gc
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from stores import answers, contents, files_of, filled, made, opened, some_rows

from surefind.engines.base import EngineError
from surefind.engines.embedded import database, vectors
from surefind.engines.embedded import engine as embedded
from surefind.engines.embedded.engine import Transaction
from surefind.engines.filters import Where
from surefind.errors import InvalidFile

LABELLED = Where.parse(["label=a"])


def test_a_reader_keeps_answering_beside_writes_and_a_compact(place):
    writer = filled(place)
    reader = opened(place)
    assert writer.newest() is None  # own writes are no news
    before, found, count = contents(reader), answers(reader), reader.count(LABELLED)
    scan = reader.scan()
    writer.remove(["row-1", "row-2"])
    writer.add(some_rows(3, 50, prefix="other"))
    writer.compact()
    # its vectors file has no name by now, its rows are still there
    assert contents(reader) == before and answers(reader) == found
    assert sum(len(block.keys) for block in scan) == 28
    assert reader.count(LABELLED) == count and reader.find(["row-1"]).ids == ("row-1",)
    newer = reader.newest()
    assert contents(newer) == contents(writer) and contents(reader) == before
    assert reader.refresh() and contents(reader) == contents(writer)
    assert not reader.refresh()
    reader.close()
    assert contents(newer) == contents(writer) and newer.newest() is None


def test_a_reader_much_older_than_a_compact_is_told_to_refresh(place, monkeypatch):
    monkeypatch.setattr(embedded, "KEPT_FOR", 0)
    writer = filled(place)
    reader = opened(place)
    keys = next(reader.scan()).keys
    for step in range(2):
        writer.remove([f"row-{step}"])
        writer.compact()
    for use in (lambda: reader.rows(keys), lambda: reader.count(LABELLED)):
        with pytest.raises(EngineError, match="refresh"):
            use()
    assert reader.refresh() and contents(reader) == contents(writer)


def test_a_connection_is_closed_with_its_version(place):
    def connections() -> int:
        return sum(str(one.readlink()).endswith("index.db") for one in Path("/proc/self/fd").iterdir() if one.exists())

    engine = filled(place)
    gc.collect()
    before = connections()
    gc.disable()  # which finds them, much later
    try:
        for number in range(4):
            engine.add(some_rows(1, number, prefix=f"more-{number}"))
            answers(engine)
            assert connections() <= before + 1
        engine.close()
        assert connections() <= before
    finally:
        gc.enable()


@pytest.mark.usefixtures("small_blocks")
def test_blocks_that_were_checked_are_not_read_again(place, monkeypatch):
    engine = filled(place)
    opened(place).add(some_rows(9, 9, prefix="elsewhere"))
    mapped = Mock(wraps=database.map_vectors)
    monkeypatch.setattr(database, "map_vectors", mapped)
    assert engine.refresh()
    blocks = mapped.call_args.kwargs["blocks"]
    assert [head[0] for head in blocks] == [32, 40]  # the last one had begun before


def test_vectors_reach_the_disk_before_the_commit(place, monkeypatch):
    """The file, and its name in the folder when it is new; SQLite flushes its own files."""
    engine, flushed, at_commit = made(place), [], []
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(str(Path(f"/proc/self/fd/{number}").readlink())))
    monkeypatch.setattr(vectors.storage, "sync_folder", lambda path: flushed.append(str(path)))
    real = Transaction.finish
    monkeypatch.setattr(Transaction, "finish", lambda change: (at_commit.extend(flushed), real(change))[1])
    engine.add(some_rows(4, 1))
    assert [path.rpartition(".")[2] for path in at_commit] == ["vectors", str(place)]


def test_what_a_killed_writer_left_is_removed_or_overwritten_by_the_next(place):
    engine = filled(place)
    left = [place / f"{'a' * 32}.vectors", place / f"{'b' * 32}.hnsw"]
    for path in left:
        path.write_bytes(b"half")
    (current,) = (path for path in place.glob("*.vectors") if path not in left)
    current.write_bytes(current.read_bytes() + b"half a row")
    reader = opened(place)
    assert reader.warnings == () and all(path.exists() for path in left)  # readers remove nothing
    engine.add(some_rows(1, 3, prefix="new"))
    assert not any(path.exists() for path in left)
    assert engine.verify() == [] and contents(opened(place)) == contents(engine)


def test_files_of_others_are_left_alone(place):
    place.mkdir()
    names = ["notes.txt", "cat.vectors", ".hidden.part"]
    for name in names:
        (place / name).write_text("mine")
    filled(place).compact()
    assert all((place / name).read_text() == "mine" for name in names)


def test_an_index_made_anew_in_the_same_folder_is_not_mistaken_for_the_old_one(place):
    engine = filled(place)
    shutil.rmtree(place)
    filled(place)
    keys = next(engine.scan()).keys
    for use in (
        engine.refresh,
        engine.newest,
        engine.compact,
        lambda: engine.add(some_rows(1, 1)),
        lambda: engine.rows(keys),
        lambda: engine.count(LABELLED),
    ):
        with pytest.raises(EngineError, match="open it again"):
            use()
    assert engine.count() == opened(place).count() == 28


def test_a_folder_that_is_gone_is_one_clear_error(place):
    engine = filled(place)
    shutil.rmtree(place)
    for use in (engine.refresh, lambda: engine.add(some_rows(1, 1))):
        with pytest.raises(InvalidFile, match="holds no index"):
            use()
    assert engine.count() == 28  # what is open stays


def test_an_index_whose_making_was_stopped_can_be_made(place):
    place.mkdir()
    (place / "index.db").touch()
    with pytest.raises(InvalidFile, match="its making was stopped"):
        opened(place)
    assert made(place).count() == 0


def test_a_damaged_newest_version_is_refused_and_the_open_one_goes_on(place):
    writer, old = filled(place), opened(place)
    before = answers(old)
    writer.add(some_rows(3, 7, prefix="new"))
    (path,) = (path for path in files_of(place) if path.suffix == ".vectors")
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.unlink()  # the file that is mapped stays as it was
    path.write_bytes(content)
    for use in (old.refresh, old.newest):
        with pytest.raises(InvalidFile, match="not as they were written") as raised:
            use()
        assert "restore the folder from a copy" in raised.value.fix
    assert answers(old) == before


def test_files_are_only_removed_by_who_holds_the_write_lock(place, monkeypatch):
    """Otherwise the uncommitted vectors of another writer would be removed."""
    collect, seen = embedded._collect_garbage, []

    def checked(folder: Path, newest: database.View) -> None:
        other = sqlite3.connect(folder / "index.db", timeout=0)
        with closing(other), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        seen.append(newest.version)
        collect(folder, newest)

    writer = filled(place)
    monkeypatch.setattr(embedded, "_collect_garbage", checked)
    writer.remove(["row-1"])
    writer.compact()
    assert len(set(seen)) == 3  # before, between and after both changes
    assert len([path for path in files_of(place) if path.suffix == ".vectors"]) == 1
