"""Names of images in URLs, an even sample of a gallery, and a map of it in the background."""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from galleries import FAMILIES, random_rows
from hypothesis import given
from hypothesis import strategies as st
from memory_engine import MemoryEngine

from surefind.engines.engine import LONGEST_ID, EngineError
from surefind.engines.space import Space
from surefind.errors import SurefindError
from surefind.serve import gallery as module
from surefind.serve.gallery import (
    GalleryMap,
    GallerySample,
    id_of,
    item_of,
    project,
    sample_gallery,
)
from surefind.serve.responses import samples_to_try

DIM = 6
PATIENCE = 60  # seconds

# names

PROPER = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
).filter(lambda name: len(name.encode()) <= LONGEST_ID)
ITEM_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@given(PROPER)
def test_every_id_comes_back_from_one_plain_step_of_a_url(name: str):
    assert id_of(item_of(name)) == name
    assert set(item_of(name)) <= set(ITEM_LETTERS)


@given(st.text() | st.text(ITEM_LETTERS))
def test_whatever_is_taken_is_exactly_what_would_be_written(item: str):
    name = id_of(item)
    assert name is None or item_of(name) == item


def test_the_longest_id_has_an_item_and_a_longer_one_has_none():
    assert id_of(item_of("x" * LONGEST_ID)) == "x" * LONGEST_ID
    assert id_of(item_of("x" * (LONGEST_ID + 1))) is None


@pytest.mark.parametrize(
    "item",
    [
        *("", "A", "..", "../../etc/passwd", "%2e%2e", "YS+/", "YQ\0", "\u00e4\u00e4", "\ud800"),
        *("YS9iLnBuZw==", "YS9iLnBuZw\n", "A" * 10**6),
        "YS9iLnBuZx",  # the same bytes, with other bits after them
        "YQBi",  # a NUL
        "wK8",  # a slash in too many bytes
    ],
)
def test_what_is_no_item_is_none(item: str):
    assert id_of(item) is None


# a sample


def engine_of(count: int, *, family: str = "gaussian") -> MemoryEngine:
    engine = MemoryEngine(Space(family, DIM, "mean"))
    engine.add(random_rows(count, DIM, seed=0, family=family))
    return engine


@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_gallery_is_sampled_whole(family):
    rows = random_rows(40, DIM, seed=0, family=family)
    engine = engine_of(40, family=family)
    found = sample_gallery(engine)
    assert sorted(found.ids) == sorted(rows.ids)
    assert (len(found.every_var), found.of) == (40, 40)
    order = [rows.ids.index(name) for name in found.ids]
    assert found.means == pytest.approx(rows.embeddings.mean.numpy()[order], abs=1e-6)
    assert found.var == pytest.approx(engine.space.var(rows.embeddings)[order], rel=1e-5)
    assert found.labels == tuple(rows.metadata[row]["label"] for row in order)


def test_an_empty_gallery_has_an_empty_sample():
    found = sample_gallery(engine_of(0))
    assert (found.ids, found.of, samples_to_try(found)) == ((), 0, [])
    assert (found.means.shape, found.var.shape, found.every_var.shape) == ((0, DIM), (0,), (0,))


def test_no_more_rows_are_looked_at_than_allowed_and_it_says_so():
    found = sample_gallery(engine_of(100), most=10, look_at=60)
    assert (len(set(found.ids)), len(found.every_var), found.of) == (10, 60, 100)


def test_every_row_is_drawn_as_often_as_any_other():
    """Ids in another order each time: the same places of the order are drawn."""
    drawn = Counter[str]()
    for seed in range(200):
        engine = MemoryEngine(Space("gaussian", DIM, "mean"))
        rows, order = random_rows(50, DIM, seed=0), np.random.default_rng(seed).permutation(50)
        engine.add(replace(rows, ids=tuple(rows.ids[row] for row in order)))
        drawn.update(sample_gallery(engine, most=10).ids)
    counts = np.array([drawn[f"row-{row}"] for row in range(50)])
    chi_squared = float(((counts - 40.0) ** 2 / (40.0 * 0.8)).sum())
    assert counts.sum() == 2000 and chi_squared < 85  # exceeded once in 1,000


def test_a_label_is_a_text_and_may_be_missing():
    engine = engine_of(0)
    rows = random_rows(2, DIM, seed=0)
    engine.add(type(rows)(rows.ids, rows.embeddings, rows.digests, ({"label": 7}, {})))
    found = sample_gallery(engine)
    assert dict(zip(found.ids, found.labels, strict=True)) == {"row-0": "7", "row-1": None}


@pytest.mark.parametrize("failures", [2, 3])
def test_a_row_that_is_removed_meanwhile_is_forgiven_an_engine_that_fails_is_not(failures):
    engine = engine_of(20)
    rows, left = engine.rows, [EngineError("gone")] * failures

    def rows_at_last(keys):
        if left:
            raise left.pop()
        return rows(keys)

    engine.rows = rows_at_last
    if failures == 2:
        assert len(sample_gallery(engine).ids) == 20
    else:
        with pytest.raises(EngineError, match="gone"):
            sample_gallery(engine)


def sample_of(labels: Sequence[str | None], *, of: int | None = None) -> GallerySample:
    ids = tuple(f"{number:03d}.png" for number in range(len(labels)))
    var, means = np.linspace(0.1, 0.2, len(ids)), clusters(len(ids))[0]
    return GallerySample(ids, tuple(labels), var, means, var, len(ids) if of is None else of)


def test_images_to_try_have_different_labels_while_there_are():
    rows = samples_to_try(sample_of("aaaabbccc"), 5)
    assert [row.name[:3] for row in rows] == ["000", "004", "006", "001", "005"]
    assert rows[0].thumbnail == f"/v1/items/{item_of('000.png')}/thumbnail"
    assert [row.name[:3] for row in samples_to_try(sample_of([None] * 20), 2)] == ["000", "001"]


# the projection of a map


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
    assert (project(np.ones((30, 4), dtype=np.float32)) == 0.5).all()


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
    map_._thread.join(PATIENCE)
    return map_.answer()


def test_a_real_map_has_a_place_for_every_image():
    sample = sample_of("ab" * 15)
    answer = drawn(GalleryMap(sample))
    assert answer["ready"] is True
    assert (answer["ids"], answer["items"]) == (list(sample.ids), list(map(item_of, sample.ids)))
    assert (answer["labels"], answer["var"]) == (["a", "b"] * 15, sample.var.tolist())
    assert len(answer["x"]) == len(answer["y"]) == 30


def test_while_it_is_drawn_there_is_no_answer_but_a_sentence(monkeypatch):
    go_on = Event()

    def held(means):
        assert go_on.wait(PATIENCE)
        return np.full((len(means), 2), 0.5)

    monkeypatch.setattr(module, "project", held)
    drawing = GalleryMap(sample_of("a" * 30))
    assert drawing.answer() is None
    assert drawing.pending == "projecting 30 images"
    go_on.set()
    drawing._thread.join(PATIENCE)
    assert drawing.answer() is not None


def test_it_is_drawn_when_it_is_asked_for_and_once(projected):
    drawing = GalleryMap(sample_of("a" * 30))
    assert projected == []
    assert drawn(drawing) is drawn(drawing)
    assert projected == [30]


@pytest.mark.parametrize(
    ("count", "of", "sentence"),
    [
        (2000, 2238, "2,000 of 2,238 images by t-SNE: similar images are near each other"),
        (10, 10, "10 images by t-SNE: similar images are near each other"),
        (1, 1, "1 image by PCA: similar images are near each other"),
        (0, 0, "there are no images to show"),
    ],
)
def test_the_sentence_says_what_is_shown(projected, count, of, sentence):
    answer = drawn(GalleryMap(sample_of("a" * count, of=of)))
    assert answer["sentence"] == sentence and len(answer["x"]) == count


@pytest.mark.parametrize(
    ("error", "reason"),
    [(SurefindError("it is odd"), "it is odd"), (MemoryError(), "MemoryError()")],
)
def test_a_failure_is_told_and_not_raised(monkeypatch, caplog, error, reason):
    def fail(means):
        raise error

    monkeypatch.setattr(module, "project", fail)
    answer = drawn(GalleryMap(sample_of("a" * 30)))
    assert answer["sentence"] == f"the map cannot be drawn: {reason}"
    assert answer["ready"] is True and answer["x"] == answer["items"] == []
    assert "the map cannot be drawn" in caplog.text


ENDING = """
import numpy as np
from surefind.serve.gallery import GalleryMap, GallerySample

n = 60_000  # would take many minutes
names, numbers = tuple(map(str, range(n))), np.ones(n)
means = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
drawing = GalleryMap(GallerySample(names, (None,) * n, numbers, means, numbers, n))
drawing.answer()
drawing._thread.join(3)
assert drawing.answer() is None
"""


def test_a_process_ends_while_a_map_is_being_drawn():
    done = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, "")
