"""Cache of hard negatives: the nearest negatives that violate the margin."""

import numpy as np
import pytest

from surefind.images.matches import ByLabel
from surefind.training.sampling import NegativeCache, TupleBatches, choose_cached_rows

LABELS = np.repeat(np.arange(20), 5)


@pytest.fixture
def cache() -> NegativeCache:
    random = np.random.default_rng(0)
    means = random.standard_normal((20, 8))[LABELS] + 0.8 * random.standard_normal((100, 8))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return NegativeCache(np.arange(100), means.astype(np.float32))


def batches(cache: NegativeCache, **changes) -> TupleBatches:
    settings = {"tuples": 10, "negatives": 5, "margin": 0.2, "seed": 0}
    return TupleBatches(ByLabel(LABELS), cache, **(settings | changes))


def as_rows(plan) -> np.ndarray:
    return plan.rows[plan.triplets]


def squared(cache: NegativeCache, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.square(cache.means[one] - cache.means[other]).sum(axis=1)


def test_cached_rows_come_with_a_partner():
    rows = choose_cached_rows(ByLabel(LABELS), np.arange(100), size=31, seed=0, step=0)
    assert 29 <= len(rows) <= 31
    counts = np.bincount(LABELS[rows], minlength=20)
    assert not (counts == 1).any()
    assert not np.array_equal(
        rows, choose_cached_rows(ByLabel(LABELS), np.arange(100), size=31, seed=0, step=1)
    )


def test_a_small_catalog_is_cached_whole():
    rows = choose_cached_rows(ByLabel(LABELS), np.arange(100), size=5000, seed=0, step=0)
    assert np.array_equal(rows, np.arange(100))


def test_only_violating_triplets_are_used_and_the_nearest_negatives_first(cache):
    for step in range(5):
        plan = batches(cache).plan(step)
        anchor, positive, negative = as_rows(plan)
        assert (LABELS[anchor] == LABELS[positive]).all()
        assert (anchor != positive).all()
        assert (LABELS[anchor] != LABELS[negative]).all()
        d_ap, d_an = squared(cache, anchor, positive), squared(cache, anchor, negative)
        assert (d_ap - d_an + 0.2 > 0).all()
        assert len(np.unique(anchor)) == 10
        for one in np.unique(anchor):  # the choice is that of a search through all images
            others = np.flatnonzero(LABELS[one] != LABELS)
            apart = squared(cache, np.full_like(others, one), others)
            violating = d_ap[anchor == one][0] - apart + 0.2 > 0
            nearest = others[violating][np.argsort(apart[violating])]
            assert negative[anchor == one].tolist() == nearest[:5].tolist()


def test_distances_are_the_models_own_not_those_of_unit_means():
    """Means of lengths 1 and 10: the nearest by direction is far away."""
    means = np.array([[1.0, 0.0], [1.0, 0.1], [10.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    cache = NegativeCache(np.arange(4), means)
    distances, positions = cache.nearest(np.array([0]), 4)
    assert positions[0].tolist() == [0, 1, 3, 2]
    assert distances[0].tolist() == pytest.approx([0, 0.01, 2, 81])


def test_without_a_violation_there_is_no_tuple():
    apart = np.eye(20, dtype=np.float32)[LABELS]
    plan = batches(NegativeCache(np.arange(100), apart)).plan(0)
    assert not plan.has_triplet()
    assert len(plan.rows) == 0


def test_rows_are_embedded_once_however_often_they_are_used(cache):
    plan = batches(cache).plan(0)
    assert len(set(plan.rows.tolist())) == len(plan.rows)
    assert plan.triplets.max() == len(plan.rows) - 1
