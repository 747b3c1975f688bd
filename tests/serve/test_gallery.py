"""Names of images in URLs, a uniform sample of the index, and its map."""

from collections.abc import Sequence
from threading import Event

import numpy as np
import pytest
from galleries import FAMILIES, random_rows
from hypothesis import given
from hypothesis import strategies as st
from memory_engine import MemoryEngine
from servers import ON_PURPOSE

from surefind.engines.base import LONGEST_ID, EngineError, Space
from surefind.errors import SurefindError
from surefind.serve import gallery as module
from surefind.serve.gallery import GalleryMap, GallerySample, MapAnswer, id_of, item_of, project, sample_gallery
from surefind.serve.responses import samples_to_try

DIM = 6
PATIENCE = 60  # seconds

# URL names

PROPER = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    lambda name: len(name.encode()) <= LONGEST_ID
)
ITEM_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@given(PROPER)
def test_every_id_survives_the_round_trip_through_a_url_name(name: str):
    assert id_of(item_of(name)) == name
    assert set(item_of(name)) <= set(ITEM_LETTERS)


@given(st.text() | st.text(ITEM_LETTERS))
def test_only_canonical_url_names_are_accepted(item: str):
    name = id_of(item)
    assert name is None or item_of(name) == item


@pytest.mark.parametrize(
    "item",
    [
        *("", "A", "..", "../../etc/passwd", "%2e%2e", "YS+/", "YQ\0", "\u00e4\u00e4", "\ud800"),
        *("YS9iLnBuZw==", "YS9iLnBuZw\n", "A" * 10**6, item_of("x" * (LONGEST_ID + 1))),
        "YS9iLnBuZx",  # the same bytes, with other bits after them
        "YQBi",  # a NUL
        "wK8",  # a slash in too many bytes
    ],
)
def test_invalid_url_names_are_rejected(item: str):
    assert id_of(item) is None


# a sample


def engine_of(count: int, *, family: str = "gaussian") -> MemoryEngine:
    engine = MemoryEngine(Space(family, DIM, "mean"))
    engine.add(random_rows(count, DIM, seed=0, family=family))
    return engine


@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_index_is_sampled_completely(family):
    rows = random_rows(40, DIM, seed=0, family=family)
    engine = engine_of(40, family=family)
    found = sample_gallery(engine)
    assert sorted(found.ids) == sorted(rows.ids)
    assert (len(found.every_var), found.of) == (40, 40)
    order = [rows.ids.index(name) for name in found.ids]
    assert found.means == pytest.approx(rows.embeddings.mean.numpy()[order], abs=1e-6)
    assert found.var == pytest.approx(engine.space.var(rows.embeddings)[order], rel=1e-5)
    assert found.labels == tuple(rows.metadata[row]["label"] for row in order)


def test_scanned_rows_are_limited_and_an_empty_index_has_none():
    found = sample_gallery(engine_of(100), most=10, look_at=60)
    assert (len(set(found.ids)), len(found.every_var), found.of) == (10, 60, 100)
    found = sample_gallery(engine_of(0))
    assert (found.ids, found.of, samples_to_try(found)) == ((), 0, [])
    assert (found.means.shape, found.var.shape, found.every_var.shape) == ((0, DIM), (0,), (0,))


def test_sampling_is_retried_after_a_concurrent_removal():
    engine, tried = engine_of(20), []
    rows = engine.rows

    def rows_at_last(keys):
        tried.append(keys)
        if len(tried) % 4 != 3:
            raise EngineError("a row was removed meanwhile")
        return rows(keys)

    engine.rows = rows_at_last
    assert len(sample_gallery(engine).ids) == 20
    with pytest.raises(EngineError, match="removed meanwhile"):
        sample_gallery(engine, attempts=1)


def sample_of(labels: Sequence[str | None], *, of: int | None = None) -> GallerySample:
    ids = tuple(f"{number:03d}.png" for number in range(len(labels)))
    var, means = np.linspace(0.1, 0.2, len(ids)), clusters(len(ids))[0]
    return GallerySample(ids, tuple(labels), var, means, var, len(ids) if of is None else of)


def test_example_queries_have_different_labels_first():
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
def test_similar_images_are_near_each_other_and_the_map_is_deterministic(count):
    means, labels = clusters(count)
    positions = project(means)
    apart = np.square(positions[:, None] - positions).sum(axis=-1)
    np.fill_diagonal(apart, np.inf)
    assert (labels[apart.argmin(axis=1)] == labels).all()
    assert np.array_equal(project(means), positions)


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
def test_degenerate_embeddings_are_projected(means):
    positions = project(means.astype(np.float32))
    assert np.isfinite(positions).all()
    assert np.ptp(positions, axis=0).max() == pytest.approx(1, abs=1e-6)
    assert (project(np.ones((30, 4), dtype=np.float32)) == 0.5).all()


# computed in the background


def drawn(map_: GalleryMap):
    map_.answer()
    map_._thread.join(PATIENCE)
    return map_.answer()


def test_a_map_is_computed_once_on_first_use_and_pending_meanwhile(monkeypatch):
    go_on, projected = Event(), []

    def held(means):
        projected.append(len(means))
        assert go_on.wait(PATIENCE)
        return np.full((len(means), 2), 0.5)

    monkeypatch.setattr(module, "project", held)
    drawing = GalleryMap(sample_of("a" * 30))
    assert projected == []
    for _ in range(2):
        assert drawing.answer() == MapAnswer(ready=False, sentence="projecting 30 images")
    go_on.set()
    drawing._thread.join(PATIENCE)
    assert drawing.answer().ready and drawing.answer() is drawing.answer()
    assert projected == [30]
    assert drawing._thread.daemon  # the process may end meanwhile


@pytest.mark.parametrize(
    ("count", "of", "sentence"),
    [
        (2000, 2238, "2,000 of 2,238 images by t-SNE: similar images are near each other"),
        (10, 10, "10 images by t-SNE: similar images are near each other"),
        (1, 1, "1 image by PCA: similar images are near each other"),
        (0, 0, "there are no images to show"),
    ],
)
def test_the_sentence_describes_the_map(monkeypatch, count, of, sentence):
    monkeypatch.setattr(module, "project", lambda means: np.zeros((len(means), 2)))
    sample = sample_of("a" * count, of=of)
    answer = drawn(GalleryMap(sample))
    assert answer.sentence == sentence and answer.ready
    assert (answer.ids, answer.items) == (sample.ids, tuple(map(item_of, sample.ids)))
    assert (answer.labels, answer.var) == (sample.labels, tuple(sample.var.tolist()))
    assert len(answer.x) == len(answer.y) == count


@pytest.mark.parametrize(
    ("error", "reason"), [(SurefindError(ON_PURPOSE), ON_PURPOSE), (KeyError(ON_PURPOSE), repr(ON_PURPOSE))]
)
def test_a_failed_map_says_why(monkeypatch, caplog, error, reason):
    def fail(means):
        raise error

    monkeypatch.setattr(module, "project", fail)
    answer = drawn(GalleryMap(sample_of("a" * 30)))
    assert answer == MapAnswer(ready=True, sentence=f"the map cannot be drawn: {reason}")
    assert "the map cannot be drawn" in caplog.text
