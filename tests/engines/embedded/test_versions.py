"""Versions follow each other whole; readers see one of them, writers clean up behind it."""

import hashlib
import json
import shutil

import numpy as np
import pytest
from stores import FACTS, QUERIES, SPACE, answers, contents, filled, made, opened, some_rows

from surefind.engines.embedded import recovery, session
from surefind.engines.embedded.recovery import open_newest
from surefind.engines.engine import EngineError
from surefind.errors import InvalidFile


def versions(place) -> list[str]:
    return sorted(path.name for path in (place / "versions").iterdir())


def referenced(place) -> set[str]:
    pieces = [
        piece
        for path in (place / "versions").iterdir()
        for piece in json.loads(path.read_text())["pieces"]
    ]
    return {
        file["name"]
        for piece in pieces
        for file in (piece["segment"], piece["dead"], piece["graph"])
        if file
    }


def test_the_pointer_names_the_newest_manifest_and_its_checksum(place):
    filled(place)
    pointer = json.loads((place / "CURRENT").read_text())
    manifest = (place / "versions" / f"{pointer['version']:06}.json").read_bytes()
    assert pointer["sha256"] == hashlib.sha256(manifest).hexdigest()


def test_the_newest_version_and_its_parent_are_kept_with_their_files_only(place):
    engine = filled(place)
    assert versions(place) == ["000003.json", "000004.json"]
    engine.compact()
    assert versions(place) == ["000004.json", "000005.json"]
    assert {path.name for path in (place / "segments").iterdir()} == referenced(place)


def test_space_facts_and_kind_are_kept(place):
    made(place, kind="auto")
    engine = opened(place)
    assert (engine.space, dict(engine.facts)) == (SPACE, FACTS)
    assert engine.describe()["asked_kind"] == "auto"
    engine.facts["nested"]["a"].append("changed")
    assert dict(engine.facts) == FACTS


def test_a_reader_keeps_answering_after_writes_and_cleaning(place):
    writer = filled(place)
    reader = opened(place)
    before, found = contents(reader), answers(reader)
    for step in range(4):
        writer.add(some_rows(20, step + 50))
        writer.compact()
    assert contents(reader) == before and answers(reader) == found
    assert reader.refresh() and contents(reader) == contents(writer)
    assert not reader.refresh()


def test_a_scan_goes_on_with_the_version_it_began_with(place):
    engine = filled(place)
    scan = engine.scan()
    engine.remove([f"row-{n}" for n in range(20)])
    assert sum(len(block.keys) for block in scan) == 28


def test_a_writer_starts_from_what_another_wrote(place):
    first, second = made(place), opened(place)
    for step in range(3):
        first.add(some_rows(2, step, prefix=f"first-{step}"))
        second.add(some_rows(2, step, prefix=f"second-{step}"))
    assert second.count() == 12 and first.count() == 10
    assert first.refresh() and contents(first) == contents(second)
    assert first.remove(["second-2-0"]) == 1
    assert second.verify() == []


def test_files_that_were_open_are_not_read_again(place, monkeypatch):
    engine = filled(place)
    known = {id(part.segment) for part in engine._session.snapshot.parts}
    opened(place).add(some_rows(1, 9, prefix="elsewhere"))
    assert engine.refresh()
    now = {id(part.segment) for part in engine._session.snapshot.parts}
    assert known < now and len(now) == len(known) + 1


def test_adding_writes_about_as_much_as_is_added(place):
    engine = made(place)
    engine.add(some_rows(5000, 1))
    before = engine.describe()["bytes"]
    engine.add(some_rows(500, 2, prefix="new"))
    assert engine.describe()["bytes"] - before < 0.12 * before


def test_leftovers_of_a_killed_writer_are_removed_by_the_next(place):
    engine = filled(place)
    left = [
        place / "segments" / f".{'a' * 32}.segment.123.part",
        place / "segments" / f"{'b' * 32}.segment",
        place / "segments" / f"{'c' * 32}.dead",
        place / "versions" / "000005.json",
        place / "versions" / ".000006.json.77.part",
        place / ".CURRENT.99.part",
        place / ".store.json.99.part",
    ]
    for path in left:
        path.write_bytes(b"half")
    reader = opened(place)
    assert reader.warnings == () and all(path.exists() for path in left)  # readers remove nothing
    engine.remove(["nobody"])
    assert not any(path.exists() for path in left)
    assert engine.verify() == []


def test_files_of_others_are_left_alone(place):
    theirs = [
        "notes.txt",
        "segments/cat.jpg",
        "versions/old.json",
        ".hidden.part",
        "segments/x.segment",
    ]
    (place / "segments").mkdir(parents=True)
    (place / "versions").mkdir()
    for name in theirs:
        (place / name).write_text("mine")
    engine = filled(place)
    engine.compact()
    assert all((place / name).read_text() == "mine" for name in theirs)


@pytest.fixture
def overtaken(place, monkeypatch):
    """Whatever version a reader is about to load is cleaned away first, so many times."""
    writer, left = filled(place), [3]
    real = recovery.load

    def late(*given, **named):
        if left[0] > 0:
            times, left[0] = left[0], 0  # the writer itself is not overtaken
            writer.compact()
            writer.add(some_rows(30, times))
            writer.compact()
            left[0] = times - 1
        return real(*given, **named)

    monkeypatch.setattr(recovery, "load", late)
    return writer, left


def test_a_reader_that_loses_the_race_with_cleaning_looks_again(overtaken):
    writer, left = overtaken
    found = open_newest(writer._session.folder)
    assert left == [0] and found.troubles == ()
    assert found.snapshot.manifest.version == writer.describe()["version"]


def test_a_race_that_never_ends_is_one_clear_error(overtaken, monkeypatch):
    writer, left = overtaken
    monkeypatch.setattr(recovery, "_ATTEMPTS", 3)
    left[0] = 10
    with pytest.raises(EngineError, match="try again later"):
        open_newest(writer._session.folder)


def test_a_slow_refresh_does_not_turn_the_clock_back(place, monkeypatch):
    engine = filled(place)
    opened(place).add(some_rows(1, 8, prefix="elsewhere"))

    def slow(folder, *, known):
        found = open_newest(folder, known=known)
        with monkeypatch.context() as patch:
            patch.setattr(session, "open_newest", open_newest)
            engine.add(some_rows(1, 9, prefix="meanwhile"))  # in another thread
        return found

    monkeypatch.setattr(session, "open_newest", slow)
    engine.refresh()
    assert engine.count() == 30


def test_a_folder_restored_from_an_older_copy_is_followed(place, tmp_path):
    engine = filled(place)
    copy = shutil.copytree(place, tmp_path / "copy")
    wanted = contents(engine)
    for seed in range(3):
        engine.add(some_rows(1, seed, prefix=f"new-{seed}"))
    shutil.rmtree(place)
    shutil.copytree(copy, place)
    assert engine.refresh() and contents(engine) == wanted
    engine.add(some_rows(1, 9, prefix="new"))
    assert engine.count() == len(wanted) + 1 and engine.verify() == []


def test_a_copy_of_the_folder_is_an_index(place, tmp_path):
    engine = filled(place)
    copy = opened(shutil.copytree(place, tmp_path / "copy"))
    assert contents(copy) == contents(engine)
    copy.add(some_rows(1, 9, prefix="new"))
    assert engine.verify() == [] and copy.verify() == []


def test_distances_and_vectors_belong_to_the_rows_found(place):
    engine = filled(place)
    found = engine.search(QUERIES, 28)
    wanted = ((QUERIES[:, None].astype("f8") - found.vectors) ** 2).sum(-1)
    np.testing.assert_allclose(found.distance, wanted, atol=1e-5)
    assert (np.diff(found.distance, axis=1) >= 0).all()
    rows = engine.rows(found.keys[0])
    np.testing.assert_allclose(found.var[0], rows.embeddings.spread, rtol=1e-6)
    assert np.array_equal(found.vectors[0], SPACE.stored(rows.embeddings))


def test_an_index_made_anew_in_the_same_folder_is_not_mistaken_for_the_old_one(place):
    engine = filled(place)
    shutil.rmtree(place)
    filled(place)
    for use in (engine.refresh, engine.compact, lambda: engine.add(some_rows(1, 1))):
        with pytest.raises(EngineError, match="open it again"):
            use()
    assert engine.count() == opened(place).count() == 28


def test_a_folder_that_is_gone_is_one_clear_error(place):
    engine = filled(place)
    shutil.rmtree(place)
    with pytest.raises(InvalidFile, match="holds no index"):
        engine.refresh()
    with pytest.raises(EngineError, match="cannot write"):
        engine.add(some_rows(1, 1))
    assert engine.count() == 28  # what is open stays
