"""A calibration in a folder: whole or not at all, damage is found, and only for its own index."""

import errno
import json
import shutil
from threading import Thread

import pytest
from clusters import cluster_engine, clusters
from faulty_disk import failing_disk
from stores import flip_bit

import surefind as sf
from surefind.search.confidence import saving
from surefind.search.confidence.calibrate import Wishes, calibrate_engine, own_queries
from surefind.search.confidence.calibration import Calibrated
from surefind.search.confidence.saving import (
    FILE,
    read_calibration,
    stored_content,
    write_calibration,
)
from surefind.search.confidence.variance_fit import fit_variance_heads
from surefind.storage import seal, unseal


def calibrated(place, seed: int) -> Calibrated:
    embeddings, labels = clusters(seed=seed)
    engine = cluster_engine(place, embeddings, labels)
    made = calibrate_engine(engine, own_queries(engine), Wishes(), source=f"seed {seed}")
    heads = fit_variance_heads(embeddings.mean, labels, heads=4, steps=2, seed=seed).heads
    return Calibrated(made.calibration, made.neighbourhoods, heads)


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Calibrated:
    return calibrated(tmp_path_factory.mktemp("first") / "store", seed=1)


@pytest.fixture(scope="module")
def second(tmp_path_factory) -> Calibrated:
    return calibrated(tmp_path_factory.mktemp("second") / "store", seed=2)


@pytest.fixture
def folder(tmp_path, first):
    write_calibration(tmp_path / "calibration", first)
    return tmp_path / "calibration"


def read(folder, **changed) -> Calibrated:
    return read_calibration(folder, **{"fingerprint": "f" * 64, "ranking": "mean"} | changed)


def assert_same(one: Calibrated, other: Calibrated) -> None:
    assert one.calibration == other.calibration
    assert one.neighbourhoods.to_bytes() == other.neighbourhoods.to_bytes()
    assert (one.heads is None) == (other.heads is None)
    if one.heads is not None and other.heads is not None:
        tensors = other.heads.tensors()
        for name, tensor in one.heads.tensors().items():
            assert tensor.equal(tensors[name])


def test_what_is_written_is_read(folder, first):
    assert_same(read(folder), first)


def test_heads_are_left_out_where_there_are_none(tmp_path, first):
    without = Calibrated(first.calibration, first.neighbourhoods)
    write_calibration(tmp_path / "calibration", without)
    assert_same(read(tmp_path / "calibration"), without)
    assert len(list((tmp_path / "calibration").glob("*.safetensors"))) == 1


def test_the_file_is_readable_json_without_a_pickle(folder):
    facts = json.loads((folder / FILE).read_text())
    assert facts["calibration"]["origin"]["source"] == "seed 1"
    assert facts["calibration"]["origin"]["queries"] == 288
    assert sorted(path.suffix or path.name for path in folder.iterdir()) == [
        ".json", ".safetensors", ".safetensors", "lock",
    ]  # fmt: skip


def test_a_new_calibration_replaces_the_old_one_and_its_files(folder, second):
    (folder / f"neighbourhoods-{'0' * 32}.safetensors").write_bytes(b"of a run that was killed")
    write_calibration(folder, second)
    assert_same(read(folder), second)
    assert len(list(folder.glob("*.safetensors"))) == 2


@pytest.mark.parametrize("which", ["calibration", "doubt", "neighbourhoods"])
def test_one_flipped_bit_is_found(folder, which):
    path = next(path for path in folder.iterdir() if path.name.startswith(which))
    flip_bit(path)
    with pytest.raises(sf.InvalidFile, match=f"{which}.*damaged.*\n.*calibrate again"):
        read(folder)


@pytest.mark.parametrize("which", ["calibration", "doubt", "neighbourhoods"])
def test_a_missing_file_is_named(folder, which):
    next(path for path in folder.iterdir() if path.name.startswith(which)).unlink()
    with pytest.raises(sf.InvalidFile, match=f"(?s){which}.*calibrate again"):
        read(folder)


def test_the_calibration_of_another_model_is_refused(folder):
    with pytest.raises(
        sf.InvalidFile, match="another index: model ffffffffffff.* has 000000000000"
    ):
        read(folder, fingerprint="0" * 64)


def test_the_calibration_of_another_ranking_is_refused(folder):
    with pytest.raises(sf.InvalidFile, match="by mean distance.*by expected"):
        read(folder, ranking="expected")


def resealed(folder, change) -> None:
    facts = unseal(folder / FILE, (folder / FILE).read_bytes())
    change(facts)
    (folder / FILE).write_bytes(seal(facts))


def test_evidence_that_is_not_known_is_refused(folder):
    def other(facts):
        facts["calibration"]["model"]["names"][0] = "horoscope"

    resealed(folder, other)
    with pytest.raises(sf.InvalidFile, match="does not know: horoscope"):
        read(folder)


def test_an_unknown_schema_is_refused(folder):
    resealed(folder, lambda facts: facts.update(schema=99))
    with pytest.raises(sf.InvalidFile, match="schema 99, this version reads"):
        read(folder)


def steps_of(folder, calibrated, tmp_path) -> int:
    copy = shutil.copytree(folder, tmp_path / "counted")
    with failing_disk() as steps:
        write_calibration(copy, calibrated)
    return len(steps)


def outcome(place, calibrated, **fault) -> str:
    try:
        with failing_disk(**fault):
            write_calibration(place, calibrated)
    except sf.InvalidFile as error:
        return error.problem.split(str(place))[0].strip()
    assert_same(read(place), calibrated)
    return "written"


@pytest.mark.parametrize(("code", "on"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_whatever_step_fails_the_old_one_or_the_new_one_is_whole(
    folder, tmp_path, first, second, code, on
):
    outcomes = []
    for at in range(steps_of(folder, second, tmp_path)):
        place = shutil.copytree(folder, tmp_path / f"{at}")
        outcomes.append(outcome(place, second, at=at, code=code, on=on))
        found = read(place)
        assert_same(found, first if found.calibration == first.calibration else second)
        write_calibration(place, second)  # and then there is room again
        assert_same(read(place), second)
        assert len(list(place.glob("*.safetensors"))) == 2
    assert set(outcomes) == {"cannot write", "written"}
    assert outcomes.count("cannot write") >= 12  # three files: opened, written, synced, renamed
    assert outcomes[-1] == "written"  # old files that cannot be removed do no harm


def test_a_first_one_that_could_not_be_written_is_none_at_all(folder, tmp_path, first):
    for at in range(steps_of(folder, first, tmp_path)):
        place = tmp_path / f"{at}"
        outcome(place, first, at=at, on=True)
        if stored_content(place) is not None:
            assert_same(read(place), first)
    assert stored_content(tmp_path / "0") is None


def test_what_another_process_puts_in_place_meanwhile_is_read(folder, second, monkeypatch):
    opened = saving._opened
    asked = []

    def replaced_first(*arguments, **named):
        if not asked:
            write_calibration(folder, second)  # removes the files that the first one names
        asked.append(arguments)
        return opened(*arguments, **named)

    monkeypatch.setattr(saving, "_opened", replaced_first)
    assert_same(read(folder), second)
    assert len(asked) == 2


def test_two_writers_take_turns(folder, first, second):
    writers = [
        Thread(target=write_calibration, args=(folder, calibrated))
        for calibrated in (first, second) * 5
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = read(folder)
    assert found.calibration in (first.calibration, second.calibration)
    assert len(list(folder.glob("*.safetensors"))) == 2
