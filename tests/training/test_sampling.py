"""Batches: decided by the seed and the step alone, balanced or of hard negatives."""

import itertools

import numpy as np
import pytest

from surefind.images.matches import ByLabel, ByPosition
from surefind.training.sampling import (
    BalancedBatches,
    BatchPlan,
    NegativeCache,
    TupleBatches,
    all_triplets,
    choose_cached_rows,
)


@pytest.fixture
def labels() -> np.ndarray:
    return np.repeat(np.arange(10), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])


def test_a_balanced_batch_has_so_many_images_of_so_many_classes(labels):
    batches = BalancedBatches(ByLabel(labels), np.arange(55), classes=4, images=3, seed=0)
    for step in range(50):
        plan = batches.plan(step)
        found, counts = np.unique(labels[plan.rows], return_counts=True)
        assert len(found) == 4
        assert 0 not in found  # one image has no partner
        assert all(count == min(3, (labels == name).sum()) for name, count in zip(found, counts, strict=True))
        assert len(set(plan.rows.tolist())) == len(plan.rows)
        assert plan.has_triplet()


def test_a_step_can_be_redone(labels):
    def batches(seed):
        return BalancedBatches(ByLabel(labels), np.arange(55), classes=4, images=3, seed=seed)

    assert np.array_equal(batches(1).plan(17).rows, batches(1).plan(17).rows)
    assert not np.array_equal(batches(1).plan(17).rows, batches(1).plan(18).rows)
    assert not np.array_equal(batches(1).plan(17).rows, batches(2).plan(17).rows)


def test_only_the_given_rows_are_drawn(labels):
    rows = np.flatnonzero(labels > 5)
    batches = BalancedBatches(ByLabel(labels), rows, classes=8, images=4, seed=0)
    assert set(labels[batches.plan(0).rows]) == {6, 7, 8, 9}


def test_a_batch_of_places_has_every_triplet_of_its_images():
    positions = np.random.default_rng(0).uniform(0, 200, (60, 2))
    matches = ByPosition(positions, radius=25)
    plan = BalancedBatches(matches, np.arange(60), classes=5, images=3, seed=0).plan(0)
    found = set(map(tuple, plan.triplets.T.tolist()))

    def distance(i, j):
        return np.linalg.norm(positions[plan.rows[i]] - positions[plan.rows[j]])

    everyone = range(len(plan.rows))
    expected = {
        (a, p, n)
        for a, p, n in itertools.product(everyone, everyone, everyone)
        if a != p and distance(a, p) <= 25 and distance(a, n) > 25
    }
    assert found == expected
    assert expected


def test_too_many_triplets_of_places_are_thinned(monkeypatch):
    monkeypatch.setattr("surefind.training.sampling.MOST_TRIPLETS", 100)
    positions = np.random.default_rng(0).uniform(0, 100, (40, 2))
    matches = ByPosition(positions, radius=25)
    triplets = all_triplets(matches, np.arange(40), np.random.default_rng(0))
    assert triplets.shape == (3, 100)


def test_unreadable_images_leave_with_their_triplets():
    triplets = np.array([[0, 1, 3], [1, 0, 2], [2, 3, 0]])
    plan = BatchPlan(np.array([10, 11, 12, 13]), triplets=triplets).keep(np.array([0, 1, 3]))
    assert plan.rows.tolist() == [10, 11, 13]
    assert plan.triplets.T.tolist() == [[1, 0, 2]]
    labelled = BatchPlan(np.array([10, 11, 12]), labels=np.array([0, 0, 1])).keep(np.array([0, 2]))
    assert labelled.labels.tolist() == [0, 1]
    assert not labelled.has_triplet()


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
    assert not np.array_equal(rows, choose_cached_rows(ByLabel(LABELS), np.arange(100), size=31, seed=0, step=1))


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
