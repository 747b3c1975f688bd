"""What was written and what is read are the same, or it is said what is wrong."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from stores import answers, contents, files_of, filled, flip_bit, made, opened, some_rows

from surefind.engines.embedded import building
from surefind.engines.embedded.engine import EmbeddedEngine
from surefind.engines.embedded.manifest import Manifest, Piece, dump, parse_record
from surefind.engines.embedded.publishing import publish
from surefind.engines.embedded.sealed import unseal
from surefind.engines.engine import EngineError
from surefind.errors import InvalidFile, SurefindError


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    """An index whose two versions have files of every sort, some in common."""
    place = tmp_path_factory.mktemp("damage") / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "GRAPH_FROM", 15)
        filled(place, kind="hnsw")
    assert {path.suffix for path in files_of(place)} == {"", ".json", ".segment", ".dead", ".hnsw"}
    return place


@pytest.fixture
def place(stored: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stored, tmp_path / "index")


def either_version(stored: Path) -> list[list[list[str]]]:
    """The right answers of the newest version and of its parent."""
    folder = stored.parent / "parent"
    if not folder.exists():
        shutil.copytree(stored, folder)
        newest = json.loads((folder / "CURRENT").read_text())["version"]
        (folder / "versions" / f"{newest:06}.json").unlink()
    return [answers(opened(stored)), answers(opened(folder))]


def needed_by(place: Path, version: str) -> dict[str, list[Path]]:
    """Files by suffix that this version needs."""
    manifest = parse_record(
        place, Manifest, unseal(place, (place / "versions" / version).read_bytes())
    )
    found: dict[str, list[Path]] = {}
    for file in manifest.files:
        path = place / "segments" / file.name
        found.setdefault(path.suffix, []).append(path)
    return found


def needed_by_newest(place: Path) -> list[Path]:
    files = [path for paths in needed_by(place, "000004.json").values() for path in paths]
    return [place / "versions" / "000004.json", *files]


def newest_only(place: Path) -> list[Path]:
    """Files that only the newest version needs, its manifest first."""
    parent = {path for paths in needed_by(place, "000003.json").values() for path in paths}
    return [path for path in needed_by_newest(place) if path not in parent]


def told(place: Path) -> str:
    """What opening an index says about damage, as an error or as warnings."""
    try:
        return " ".join(opened(place).warnings)
    except InvalidFile as error:
        return str(error)


@pytest.mark.parametrize("seed", range(6))
def test_one_flipped_bit_is_found_in_every_file(stored: Path, tmp_path: Path, seed: int):
    right = either_version(stored)
    parents = {path.name for path in files_of(stored)} - {
        path.name for path in [*needed_by_newest(stored), stored / "CURRENT", stored / "store.json"]
    }
    for number, path in enumerate(files_of(stored)):
        place = shutil.copytree(stored, tmp_path / str(number))
        damaged = place / path.relative_to(stored)
        flip_bit(damaged, seed=seed)
        assert (str(damaged) in told(place)) == (path.name not in parents), path.name
        if "no version" not in told(place):
            engine = opened(place)
            assert answers(engine) in right, path.name
            assert any(str(damaged) in problem for problem in engine.verify()), path.name
    assert parents  # which are not looked at until they are needed


def spoil(path: Path, how: str) -> None:
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "short":
        path.write_bytes(path.read_bytes()[:-1])
    elif how == "long":
        path.write_bytes(path.read_bytes() + b"\0")
    elif how == "folder":
        path.unlink()
        path.mkdir()
    else:
        flip_bit(path)


@pytest.mark.parametrize("how", ["missing", "empty", "short", "long", "folder", "flipped"])
def test_a_damaged_newest_version_is_passed_over(place, stored, how: str):
    _, parent = either_version(stored)
    for path in newest_only(place):
        copy = shutil.copytree(place, place.with_name(f"copy of {path.name}"))
        damaged = copy / path.relative_to(place)
        spoil(damaged, how)
        engine = opened(copy)
        assert answers(engine) == parent
        told = " ".join(engine.warnings)
        assert str(damaged) in told and "version 3 is served" in told


@pytest.mark.parametrize("how", ["missing", "flipped"])
def test_a_damaged_index_is_read_but_not_written_until_it_is_repaired(place, how: str):
    spoil(newest_only(place)[1], how)
    engine = opened(place)
    before = contents(engine)
    for write in (
        lambda: engine.add(some_rows(1, 9, prefix="new")),
        lambda: engine.remove(["row-1"]),
        engine.compact,
    ):
        with pytest.raises(EngineError, match="call repair"):
            write()
    done = engine.repair()
    assert "version 5 was made from version 3" in done[-1]
    assert engine.warnings == () and contents(engine) == before
    engine.add(some_rows(1, 9, prefix="new"))
    again = opened(place)
    assert again.verify() == [] and again.count() == len(before) + 1


def test_repairing_what_is_whole_changes_nothing(place):
    engine = opened(place)
    before = {path: path.read_bytes() for path in files_of(place)}
    assert engine.repair() == []
    assert {path: path.read_bytes() for path in files_of(place)} == before


@pytest.mark.parametrize("name", ["CURRENT", "store.json"])
@pytest.mark.parametrize("how", ["missing", "flipped"])
def test_no_row_is_lost_with_the_small_files(place, stored, name: str, how: str):
    spoil(place / name, how)
    engine = opened(place)
    newest, _ = either_version(stored)
    assert answers(engine) == newest
    assert name in engine.warnings[0] and "version 4 is served" in engine.warnings[-1]
    engine.repair()
    assert opened(place).warnings == () and opened(place).verify() == []
    assert answers(opened(place)) == newest


def test_damage_to_all_versions_is_one_clear_error(place):
    common = set(needed_by(place, "000003.json")[".segment"])
    path = (common & set(needed_by(place, "000004.json")[".segment"])).pop()
    flip_bit(path)
    with pytest.raises(InvalidFile, match="no version of the index") as raised:
        opened(place)
    assert str(path) in raised.value.problem and "restore" in raised.value.fix


def test_a_damaged_parent_is_named_by_verify_only(place):
    flip_bit(place / "versions" / "000003.json")
    engine = opened(place)
    assert engine.warnings == ()
    assert ["000003.json" in problem for problem in engine.verify()] == [True]
    engine.add(some_rows(1, 9, prefix="new"))
    assert engine.verify() == []


def test_files_of_another_index_are_refused(place, tmp_path):
    other = filled(tmp_path / "other", kind="flat")._session.folder.path
    shutil.copy(other / "store.json", place / "store.json")
    with pytest.raises(InvalidFile, match="belongs to another index"):
        opened(place)


def test_damage_that_comes_while_open_is_found_by_verify(place):
    engine = opened(place)
    assert engine.verify() == []
    path = needed_by(place, "000004.json")[".segment"][0]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.unlink()  # the file that is open stays as it was
    path.write_bytes(content)
    (problem,) = engine.verify()
    assert str(path) in problem and "checksum" in problem


def forged(engine: EmbeddedEngine, change) -> EmbeddedEngine:
    """The newest version with another manifest, rightly sealed."""
    manifest = engine._session.snapshot.manifest
    publish(engine._session.folder, parse_record(Path("x"), Manifest, change(dump(manifest))))
    return opened(engine._session.folder.path)


def pieces_with(**wrong):
    def change(facts):
        facts["pieces"][0] |= wrong
        return facts

    return change


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"rows": 19}, "numbers, not"),
        ({"rows": 2**31}, "numbers, not|bitmap"),
        ({"removed": 1}, "does not name|not known"),
        ({"dead": None}, "not known"),
    ],
)
def test_a_manifest_that_lies_about_its_files_is_damaged(place, wrong, match: str):
    engine = opened(place)
    facts = dump(engine._session.snapshot.manifest)
    assert facts["pieces"][0]["dead"]
    with pytest.raises(InvalidFile, match=match):
        forged(engine, lambda _: pieces_with(**wrong)(facts) | {"version": 1, "parent": None})


def test_a_next_key_that_is_taken_is_damage(place):
    with pytest.raises(InvalidFile, match="next key"):
        forged(opened(place), lambda facts: facts | {"next_key": 2, "version": 1})


def test_verify_reads_what_is_written_in_the_files(tmp_path, monkeypatch):
    """Checksums are right here: a faulty program wrote this."""
    engine = made(tmp_path / "index")
    rows = some_rows(6, 1)
    real = building.write_segment

    def broken(folder, gathered) -> Piece:
        vectors = gathered._sources[0].vectors
        vectors[2, 1] = np.nan
        gathered._sources[0].var[3] = -1
        gathered._sources[0] = gathered._sources[0]._replace(id_hash=np.arange(6, dtype="u8"))
        return real(folder, gathered)

    with monkeypatch.context() as patch:
        patch.setattr(building, "write_segment", broken)
        engine.add(rows)
    found = " ".join(engine.verify())
    assert "not finite" in found and "not positive" in found and "does not lead" in found


def test_verify_finds_ids_that_belong_to_two_rows(tmp_path, monkeypatch):
    engine = filled(tmp_path / "index")
    monkeypatch.setattr("surefind.engines.embedded.engine._found", lambda *_: ({}, 0))
    engine.add(some_rows(2, 1))
    assert any("belongs to 2 rows" in problem for problem in engine.verify())


def test_what_is_no_index_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for name in ("nothing", "file", "folder"):
        with pytest.raises(SurefindError, match="holds no index"):
            opened(tmp_path / name)
