"""Damaged index files: each is detected, with an error that says what is wrong."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from stores import files_of, filled, made, opened, some_rows

from surefind.engines.embedded import database, engine
from surefind.engines.embedded.database import read_meta, write_meta
from surefind.errors import InvalidFile, SurefindError
from surefind.storage import CorruptFile


def changed(place: Path, *statements: str, **meta: object) -> None:
    """The database changed by hand, its seal made right again."""
    db = sqlite3.connect(place / "index.db")
    for statement in statements:
        db.execute(statement)
    facts, heads = read_meta(place, db)
    write_meta(db, facts | meta, heads)
    db.commit()
    db.close()


def vectors_of(place: Path) -> Path:
    (path,) = (path for path in files_of(place) if path.suffix == ".vectors")
    return path


@pytest.mark.parametrize("how", ["missing", "empty", "short", "folder", "flipped", "header"])
def test_damaged_vectors_are_refused_with_a_remedy(place, how: str):
    filled(place)
    path = vectors_of(place)
    content = bytearray(path.read_bytes())
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how != "missing":
        content[-3 if how == "flipped" else 3] ^= how in ("flipped", "header")
        size = {"empty": 0, "short": len(content) - 1}.get(how, len(content))
        path.write_bytes(content[:size])
    with pytest.raises(CorruptFile) as raised:
        opened(place)
    assert str(path) in raised.value.problem
    assert "restore the folder from a copy, or make it again" in raised.value.fix


def test_a_row_that_was_changed_is_noticed_when_it_is_read_and_by_verify(place):
    found = filled(place)
    changed(place, "UPDATE rows SET metadata = replace(metadata, 'label', 'lebal') WHERE key = 7")
    again = opened(place)
    assert again.count() == 28 and len(again.find(["row-8"])) == 1
    with pytest.raises(CorruptFile, match="row 7 is not as it was written"):
        again.find(["row-7"])
    assert any("row 7 is not as it was written" in problem for problem in found.verify())
    assert found.repair() and found.verify()  # there is nothing to build it from


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM rows WHERE key = 9", "row 9 is missing"),
        ("UPDATE rows SET removed_in = 1 WHERE key = 9", "row 9 is missing"),
        ("UPDATE rows SET removed_in = NULL", "is not of this version"),
        ("UPDATE rows SET digest = 'text' WHERE key = 9", "row 9 is not as it was written"),
    ],
)
def test_verify_compares_the_rows_with_the_version(place, statement: str, problem: str):
    filled(place)
    changed(place, statement)
    assert any(problem in found for found in opened(place).verify())


def test_a_damaged_lookup_is_found_and_built_again(place):
    found = filled(place)
    db = sqlite3.connect(place / "index.db")
    page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rows_by_id'").fetchone()[0]
    size = db.execute("PRAGMA page_size").fetchone()[0]
    db.close()
    content = bytearray((place / "index.db").read_bytes())
    at = content.index(b"other-4", (page - 1) * size)
    content[at + 6 : at + 7] = b"\xf5"
    (place / "index.db").write_bytes(content)
    assert found.verify()
    found.repair()
    assert found.verify() == [] and found.find(["other-4"]).ids == ("other-4",)


@pytest.mark.parametrize(
    "wrong",
    [
        {"dim": 0},
        {"dim": "3"},
        {"family": "unknown"},
        {"version": None},
        {"vectors": "../../etc/passwd"},
        {"vectors": "/etc/passwd"},
        {"vectors": 5},
        {"removed": "text"},
        {"graph": "{"},
        {"graph": '["../x.hnsw", 5, ""]'},
    ],
)
def test_a_description_that_cannot_be_is_damage_though_its_seal_is_right(place, wrong):
    filled(place)
    changed(place, **wrong)
    with pytest.raises(SurefindError):
        opened(place)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE blocks SET count = count + 1",
        "UPDATE blocks SET columns = x'00'",
        "UPDATE blocks SET first = 4096",
        "UPDATE meta SET value = 3 WHERE key = 'version'",
        "DELETE FROM meta WHERE key = 'facts'",
        "DELETE FROM blocks",
        "DROP TABLE blocks",
    ],
)
def test_a_changed_description_is_damage(place, statement: str):
    filled(place)
    db = sqlite3.connect(place / "index.db")
    db.execute(statement)
    db.commit()
    db.close()
    with pytest.raises(CorruptFile, match="index.db"):
        opened(place)


def test_an_index_of_a_newer_format_is_told_apart_from_damage(place, monkeypatch):
    monkeypatch.setattr(database, "FORMAT", 3)
    made(place)
    monkeypatch.undo()
    with pytest.raises(InvalidFile, match="has format 3") as raised:
        opened(place)
    assert not isinstance(raised.value, CorruptFile)


def test_verify_reads_what_is_written_in_the_files(tmp_path, monkeypatch):
    """Checksums are right here: a faulty program wrote this."""
    found = made(tmp_path / "index")
    real = engine.Transaction.add

    def broken(change, vectors, var, texts):
        vectors[2, 1], var[3] = np.nan, -1
        real(change, vectors, var, texts)

    monkeypatch.setattr(engine.Transaction, "add", broken)
    found.add(some_rows(6, 1))
    problems = " ".join(found.verify())
    assert "not finite" in problems and "not positive" in problems


def test_verify_finds_ids_that_belong_to_two_rows(tmp_path, monkeypatch):
    found = filled(tmp_path / "index")
    monkeypatch.setattr(engine.View, "find_in", lambda *_: {})
    found.add(some_rows(2, 1))
    assert any("has the id of another" in problem for problem in found.verify())


def test_what_is_no_index_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for name in ("nothing", "file", "folder"):
        with pytest.raises(SurefindError, match="holds no index"):
            opened(tmp_path / name)
