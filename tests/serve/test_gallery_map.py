"""The map: near stays near, drawn once in the background, and never in the way."""

import os
import subprocess
import sys
import threading
from threading import Event

import numpy as np
import pytest

from surefind.errors import SurefindError
from surefind.serve import gallery_map as module
from surefind.serve.gallery import GallerySample
from surefind.serve.gallery_map import GalleryMap, project

PATIENCE = 60  # seconds

# projection


def clusters(count: int, *, of: int = 4, dim: int = 20, seed: int = 0):
    random = np.random.default_rng(seed)
    labels = np.arange(count) % of
    centres = 10 * random.normal(size=(of, dim))
    return (centres[labels] + random.normal(size=(count, dim))).astype(np.float32), labels


@pytest.mark.parametrize("count", [0, 1, 2, 3, 9, 10, 40])
def test_any_number_of_images_lies_in_the_unit_square(count):
    positions = project(clusters(count)[0])
    assert positions.shape == (count, 2)
    assert ((positions >= 0) & (positions <= 1)).all()


@pytest.mark.parametrize("count", [8, 60])
def test_images_that_are_alike_lie_near_each_other(count):
    means, labels = clusters(count)
    positions = project(means)
    apart = np.square(positions[:, None] - positions).sum(axis=-1)
    np.fill_diagonal(apart, np.inf)
    assert (labels[apart.argmin(axis=1)] == labels).all()
    assert np.array_equal(project(means), positions)


def test_few_images_lie_as_their_principal_components_say():
    means, _ = clusters(9, dim=5)
    apart = means - means.mean(axis=0)
    left, sizes, _ = np.linalg.svd(apart.astype(np.float64), full_matrices=False)
    expected, found = left[:, :2] * sizes[:2], project(means)
    found = (found - found.mean(axis=0)) * np.ptp(expected, axis=0).max()
    assert np.abs(found) == pytest.approx(np.abs(expected), abs=1e-4)


def test_images_that_are_all_the_same_lie_in_the_middle():
    assert (project(np.ones((30, 4), dtype=np.float32)) == 0.5).all()


@pytest.mark.parametrize(
    "means",
    [
        np.repeat(clusters(4)[0], 25, axis=0),
        np.concatenate([np.zeros((50, 3)), np.ones((1, 3))]),
        np.pad(clusters(30)[0], [(0, 0), (3, 3)]),
        clusters(30, dim=1)[0],
        clusters(5, dim=1)[0],
        clusters(30, dim=600)[0],
        1e25 * clusters(30)[0],
        1e-25 * clusters(30)[0],
    ],
    ids=["duplicates", "one apart", "constant", "1 D", "few in 1 D", "wide", "huge", "small"],
)
def test_no_gallery_breaks_it(means):
    positions = project(means.astype(np.float32))
    assert np.isfinite(positions).all()
    assert np.ptp(positions, axis=0).max() == pytest.approx(1, abs=1e-6)


def test_one_core_is_used_and_the_limit_ends_with_the_work(monkeypatch):
    import sklearn.manifold
    from threadpoolctl import threadpool_info, threadpool_limits

    seen = []

    class Watched(sklearn.manifold.TSNE):
        def fit_transform(self, means):
            seen.append(threads())
            return super().fit_transform(means)

    def threads() -> set[int]:
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp"}

    monkeypatch.setattr(sklearn.manifold, "TSNE", Watched)
    with threadpool_limits(2, user_api="openmp"):
        project(clusters(20)[0])
        assert (seen, threads()) == ([{1}], {2})


# drawn in the background


def sample_of(count: int, *, of: int | None = None) -> GallerySample:
    ids = tuple(f"{number:03d}.png" for number in range(count))
    var = np.linspace(0.1, 0.2, count)
    labels = tuple("ab"[number % 2] for number in range(count))
    return GallerySample(ids, labels, var, clusters(count)[0], var, count if of is None else of)


@pytest.fixture
def projected(monkeypatch) -> list[int]:
    """How many images were projected, each time."""
    done: list[int] = []

    def fake(means):
        done.append(len(means))
        return np.linspace(0, 1, 2 * len(means)).reshape(-1, 2)

    monkeypatch.setattr(module, "project", fake)
    return done


def drawn(map_: GalleryMap):
    map_.answer()
    map_.wait(PATIENCE)
    return map_.answer()


def test_a_real_map_has_a_place_for_every_image():
    sample = sample_of(30)
    answer = drawn(GalleryMap(sample))
    assert answer["ready"] is True
    assert (answer["ids"], answer["items"]) == (list(sample.ids), sample.items)
    assert (answer["labels"], answer["var"]) == (["a", "b"] * 15, sample.var.tolist())
    assert len(answer["x"]) == len(answer["y"]) == 30


def test_while_it_is_drawn_there_is_no_answer_but_a_sentence(monkeypatch):
    go_on = Event()

    def held(means):
        assert go_on.wait(PATIENCE)
        return np.full((len(means), 2), 0.5)

    monkeypatch.setattr(module, "project", held)
    drawing = GalleryMap(sample_of(30))
    assert drawing.answer() is None
    assert drawing.pending == "projecting 30 images"
    go_on.set()
    drawing.wait(PATIENCE)
    assert drawing.answer() is not None


def test_it_is_drawn_when_it_is_asked_for_and_once(projected):
    drawing = GalleryMap(sample_of(30))
    drawing.wait()
    assert projected == []
    assert drawn(drawing) is drawn(drawing)
    assert projected == [30]


@pytest.mark.parametrize(
    ("count", "of", "sentence"),
    [
        (2000, 2238, "2,000 of 2,238 images by t-SNE: near each other here means alike"),
        (10, 10, "10 images by t-SNE: near each other here means alike"),
        (9, 9, "9 images by PCA: near each other here means alike"),
        (1, 1, "1 image by PCA: near each other here means alike"),
        (0, 0, "there are no images to show"),
    ],
)
def test_the_sentence_says_what_is_shown(projected, count, of, sentence):
    answer = drawn(GalleryMap(sample_of(count, of=of)))
    assert answer["sentence"] == sentence and len(answer["x"]) == count


@pytest.mark.parametrize(
    ("error", "reason"),
    [(SurefindError("it is odd"), "it is odd"), (MemoryError(), "MemoryError()")],
)
def test_a_failure_is_told_and_not_raised(monkeypatch, caplog, error, reason):
    def fail(means):
        raise error

    monkeypatch.setattr(module, "project", fail)
    answer = drawn(GalleryMap(sample_of(30)))
    assert answer["sentence"] == f"the map cannot be drawn: {reason}"
    assert answer["ready"] is True and answer["x"] == answer["items"] == []
    assert "the map cannot be drawn" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a priority is of the process")
def test_it_is_drawn_with_less_priority_than_the_rest(monkeypatch):
    seen = []

    def look(means):
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return np.zeros((len(means), 2))

    monkeypatch.setattr(module, "project", look)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    drawn(GalleryMap(sample_of(30)))
    assert seen == [min(19, max(own, module.NICENESS))]
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


ENDING = """
import numpy as np
from surefind.serve.gallery import GallerySample
from surefind.serve.gallery_map import GalleryMap

n = 60_000  # would take many minutes
names, numbers = tuple(map(str, range(n))), np.ones(n)
means = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
drawing = GalleryMap(GallerySample(names, (None,) * n, numbers, means, numbers, n))
drawing.answer()
drawing.wait(3)
assert drawing.answer() is None
"""


def test_a_process_ends_while_a_map_is_being_drawn():
    done = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, "")
