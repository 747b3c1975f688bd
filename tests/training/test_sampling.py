"""Batches: decided by the seed and the step alone, made of what they should be."""

import itertools

import numpy as np
import pytest

from surefind.images.matches import ByLabel, ByPosition
from surefind.training.sampling import BalancedBatches, BatchPlan, all_triplets


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
        assert all(
            count == min(3, (labels == name).sum())
            for name, count in zip(found, counts, strict=True)
        )
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
