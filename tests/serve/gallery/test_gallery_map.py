"""The map: drawn once in the background, kept, and never in the way."""

import os
import subprocess
import sys
import threading
from dataclasses import replace
from threading import Event

import numpy as np
import pytest

from surefind.errors import SurefindError
from surefind.serve.gallery import gallery_map as module
from surefind.serve.gallery.gallery_map import GalleryMap

PATIENCE = 60  # seconds


@pytest.fixture
def projected(monkeypatch) -> list[int]:
    """How many images were projected, each time."""
    done: list[int] = []

    def project(means):
        done.append(len(means))
        return np.linspace(0, 1, 2 * len(means), dtype=np.float32).reshape(-1, 2)

    monkeypatch.setattr(module, "project", project)
    return done


@pytest.fixture
def held(monkeypatch):
    """A projection that waits until it is let go."""
    go_on = Event()

    def project(means):
        assert go_on.wait(PATIENCE)
        return np.full((len(means), 2), 0.5, dtype=np.float32)

    monkeypatch.setattr(module, "project", project)
    yield go_on
    go_on.set()


def drawn(map_: GalleryMap):
    map_.answer()
    map_.wait(PATIENCE)
    return map_.answer()


def test_a_real_map_has_a_place_for_every_image(make_sketch):
    sketch = make_sketch(30, labels=["a", "b", None] * 10)
    answer = drawn(GalleryMap(sketch))
    assert answer["ready"] is True
    assert answer["ids"] == list(sketch.ids)
    assert answer["items"] == list(sketch.items)
    assert answer["labels"] == ["a", "b", None] * 10
    assert answer["var"] == sketch.var.tolist()
    assert len(answer["x"]) == len(answer["y"]) == 30
    assert all(0 <= place <= 1 for place in answer["x"] + answer["y"])


def test_nothing_is_drawn_before_it_is_asked_for(make_sketch, projected):
    before = set(threading.enumerate())
    GalleryMap(make_sketch(30)).wait()
    assert set(threading.enumerate()) == before
    assert projected == []


def test_while_it_is_drawn_the_answer_is_none_and_the_sentence_says_so(make_sketch, held):
    drawing = GalleryMap(make_sketch(30))
    assert drawing.answer() is None
    assert drawing.sentence == "projecting 30 images"
    held.set()
    drawing.wait(PATIENCE)
    assert drawing.answer() is not None


def test_it_is_drawn_once_however_often_it_is_asked_for(make_sketch, projected):
    drawing = GalleryMap(make_sketch(30))
    assert drawn(drawing) is drawn(drawing)
    assert projected == [30]


@pytest.mark.parametrize(
    ("count", "of", "sentence"),
    [
        (2000, 2238, "2,000 of 2,238 images by t-SNE: near each other here means alike"),
        (30, 30, "30 images by t-SNE: near each other here means alike"),
        (9, 9, "9 images by PCA: near each other here means alike"),
        (1, 1, "1 image by PCA: near each other here means alike"),
        (0, 0, "there are no images to show"),
    ],
)
def test_the_sentence_says_what_is_shown(make_sketch, projected, count, of, sentence):
    drawing = GalleryMap(replace(make_sketch(count), of=of))
    assert drawn(drawing)["sentence"] == sentence == drawing.sentence
    assert len(drawing.answer()["x"]) == count


def test_a_second_server_reads_what_the_first_has_drawn(tmp_path, make_sketch, projected):
    first = drawn(GalleryMap(make_sketch(30), tmp_path))
    assert drawn(GalleryMap(make_sketch(30), tmp_path)) == first
    assert projected == [30]
    assert [path.name for path in tmp_path.iterdir()] == ["map"]


def test_a_gallery_that_changed_is_drawn_anew(tmp_path, make_sketch, projected):
    drawn(GalleryMap(make_sketch(30), tmp_path))
    drawn(GalleryMap(make_sketch(31), tmp_path))
    assert projected == [30, 31]
    assert len(list((tmp_path / "map").iterdir())) == 1


def test_where_it_cannot_be_kept_it_is_shown_all_the_same(tmp_path, make_sketch, projected):
    (tmp_path / "map").write_bytes(b"in the way")
    assert len(drawn(GalleryMap(make_sketch(30), tmp_path))["x"]) == 30


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SurefindError("it is odd", fix="even it"), "it is odd"),
        (ValueError("bad numbers"), "bad numbers"),
        (MemoryError(), "MemoryError()"),
    ],
)
def test_a_failure_is_told_and_not_raised(make_sketch, monkeypatch, caplog, error, reason):
    def fail(means):
        raise error

    monkeypatch.setattr(module, "project", fail)
    answer = drawn(GalleryMap(make_sketch(30)))
    assert answer["sentence"] == f"the map cannot be drawn: {reason}"
    assert answer["ready"] is True
    assert answer["x"] == answer["items"] == []
    assert "the map cannot be drawn" in caplog.text


def test_where_no_thread_can_be_started_the_next_question_tries_again(
    make_sketch, monkeypatch, projected
):
    drawing = GalleryMap(make_sketch(30))
    with monkeypatch.context() as patched:

        def refuse(self):
            raise RuntimeError("can't start new thread")

        patched.setattr(threading.Thread, "start", refuse)
        assert drawing.answer() is None
    assert drawn(drawing) is not None


def test_after_a_stop_nothing_is_begun_shown_or_kept(tmp_path, make_sketch, held):
    begun, not_begun = GalleryMap(make_sketch(30), tmp_path), GalleryMap(make_sketch(30), tmp_path)
    begun.answer()
    for each in (begun, not_begun):
        each.stop()
    held.set()
    begun.wait(PATIENCE)
    assert begun.answer() is None
    assert not_begun.answer() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a priority is of the process")
def test_it_is_drawn_with_less_priority_than_the_rest(make_sketch, monkeypatch):
    seen = []

    def project(means):
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return np.zeros((len(means), 2), dtype=np.float32)

    monkeypatch.setattr(module, "project", project)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    drawn(GalleryMap(make_sketch(30)))
    assert seen == [min(19, max(own, module.NICENESS))]
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


ENDING = """
import numpy as np
from surefind.serve.gallery.gallery_map import GalleryMap
from surefind.serve.gallery.sketch import Sketch

n = 60_000  # would take many minutes
names, numbers = tuple(map(str, range(n))), np.ones(n)
means = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
drawing = GalleryMap(Sketch(names, names, (None,) * n, numbers, means, numbers, n, n))
drawing.answer()
drawing.wait(3)
assert drawing.answer() is None
drawing.stop()
"""


def test_a_process_ends_while_a_map_is_being_drawn():
    done = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, "")
