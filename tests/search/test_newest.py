"""The newest version of an index beside the one in use."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from class_folders import write_pictures
from clusters import cluster_index, clusters, rows_of, thirds
from stores import change_documents, flip_last_bit

import surefind as sf
from surefind.search import calibrations
from surefind.search.index import Index

(GALLERY, LABELS), (KNOWN, KNOWN_LABELS), (FRESH, _) = thirds(classes=12, seed=3)
LATE = rows_of(*clusters(classes=4, seed=8), prefix="late")


def calibrate(index: Index, *, seed: int = 0) -> None:
    index.calibrate(KNOWN, labels=KNOWN_LABELS, use_labels=False, learn_variance=False, seed=seed)


def add_late(index: Index) -> None:
    index.add_embeddings(LATE.embeddings, LATE.ids, metadata=LATE.metadata)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "index"
    with cluster_index(folder, GALLERY, LABELS) as index:
        calibrate(index)
    return folder


@pytest.fixture
def place(made, tmp_path) -> Path:
    return shutil.copytree(made, tmp_path / "index")


def answers(index: Index) -> list[tuple]:
    return [(result.confidence, result.verdict, [hit.id for hit in result.hits]) for result in index.search(FRESH[:10])]


# what is news


def test_nothing_is_new_if_nobody_wrote(place):
    index = Index.open(place)
    assert index.newest() is None
    answers(index)
    assert index.newest() is None


def test_new_rows_are_in_the_newer_one_only(place):
    old = Index.open(place)
    before = answers(old)
    with Index.open(place) as writer:
        add_late(writer)
        writer.remove(["row-1"])
    newer = old.newest()
    assert (len(old), len(newer)) == (len(LABELS), len(LABELS) + len(LATE) - 1)
    assert answers(old) == before
    assert newer.search(LATE.embeddings[:1])[0].hits[0].id == "late-0"
    assert newer.items(["row-1", "late-0"]).ids == ("late-0",)
    assert old.items(["row-1", "late-0"]).ids == ("row-1",)
    assert newer.newest() is None


def test_a_new_calibration_is_in_the_newer_one_only(place):
    old = Index.open(place)
    before = answers(old)
    with Index.open(place) as writer:
        writer.calibrate(KNOWN[:100], labels=KNOWN_LABELS[:100], use_labels=False, learn_variance=False)
        wanted = answers(writer)
    newer = old.newest()
    assert answers(newer) == wanted != before
    assert answers(old) == before
    assert newer.newest() is None


def test_a_calibration_that_cannot_be_read_is_an_error_and_the_old_one_stays(place):
    old = Index.open(place)
    before = answers(old)
    with Index.open(place) as writer:
        add_late(writer)
        writer.calibrate(KNOWN[:100], labels=KNOWN_LABELS[:100], use_labels=False, learn_variance=False)
    file = place / "store" / "index.db"
    change_documents(file, "UPDATE documents SET content = x''", "calibration.density")
    for _ in range(2):
        with pytest.raises(sf.InvalidFile, match=r"(?s)damaged.*calibrate again"):
            old.newest()
    assert answers(old) == before
    with Index.open(place) as writer:
        calibrate(writer)
    assert len(old.newest()) == len(LABELS) + len(LATE)


def test_a_damaged_newest_version_is_refused_and_the_open_one_goes_on(place):
    old = Index.open(place)
    before = answers(old)
    with Index.open(place) as writer:
        add_late(writer)
    (vectors,) = (place / "store").glob("*.vectors")
    flip_last_bit(vectors)
    with pytest.raises(sf.InvalidFile, match="restore the folder from a copy"):
        old.newest()
    assert answers(old) == before and old.warnings == ()


# what is shared


def test_the_encoder_is_loaded_once_for_all_of_them(tmp_path, monkeypatch):
    photos = write_pictures(tmp_path / "photos", classes=2, per_class=3)
    more = write_pictures(tmp_path / "more", classes=1, per_class=2, seed=5)
    encoder = sf.Encoder.create(sf.EncoderConfig(backbone="tiny", dim=8), seed=1).eval()
    Index.create(tmp_path / "index", encoder, photos).close()
    loaded, load = [], sf.Encoder.load
    monkeypatch.setattr(sf.Encoder, "load", lambda *its: loaded.append(1) or load(*its))
    old = Index.open(tmp_path / "index")
    with Index.open(tmp_path / "index", encoder=encoder) as writer:
        writer.add(more, ids=["one", "two"])
    newer = old.newest()
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda n: (old, newer)[n % 2].encoder, range(32)))
    assert len(loaded) == 1 and all(one is got[0] for one in got)


def test_a_calibration_is_read_once_by_many_threads(place, monkeypatch):
    index, read = Index.open(place), []
    real = calibrations.read_calibration
    monkeypatch.setattr(
        calibrations, "read_calibration", lambda *its, **more: read.append(time.sleep(0.01)) or real(*its, **more)
    )
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda _: index.calibrated, range(32)))
    assert len(read) == 1 and all(one is got[0] for one in got)
