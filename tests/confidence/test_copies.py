"""Copies against a loop over all pairs."""

import numpy as np
import pytest

import surefind as sf
from surefind.confidence.copies import ROUNDING, first_copies, is_copy


def first_by_hand(means: np.ndarray) -> list[int]:
    """The first row that each equals, found among all."""
    wide = means.astype(np.float64)
    found = []
    for row in wide:
        limit = ROUNDING * (np.square(row).sum() + np.square(wide).sum(axis=1))
        found.append(int((np.square(wide - row).sum(axis=1) <= limit).argmax()))
    return found


@pytest.mark.parametrize("dim", [1, 3, 8, 64])
def test_copies_are_those_of_a_loop_whatever_the_scale_of_the_vectors(dim):
    random = np.random.default_rng(dim)
    means = random.normal(size=(150, dim)) * np.exp(random.normal(0, 5, size=(150, 1)))
    rounded = means[20:70] * (1 + 2e-7 * random.normal(size=(50, dim)))
    apart = means[40:90] * (1 + 1e-3 * random.uniform(1, 2, size=(50, dim)))
    every = np.concatenate([means, means[:40], rounded, apart, np.zeros((3, dim))])
    every = every.astype(np.float32)
    assert first_copies(every).tolist() == first_by_hand(every)


def test_a_number_and_its_negative_zero_are_equal():
    assert first_copies(np.array([[0.0, 1.0], [-0.0, 1.0]], np.float32)).tolist() == [0, 0]


def test_no_rows_have_no_copies():
    assert first_copies(np.empty((0, 4), np.float32)).tolist() == []


def test_equal_digests_join_rows_and_no_digest_joins_none():
    means = np.eye(6, dtype=np.float32)
    means[5] = means[2]
    found = first_copies(means, ["a", "", "b", "", "a", "c"])
    assert found.tolist() == [0, 1, 2, 3, 0, 2]
    assert first_copies(means, ["a", "", "b", "c", "a", "a"]).tolist() == [0, 1, 0, 3, 0, 0]


def test_rows_of_other_labels_are_no_copies():
    means = np.ones((6, 3), np.float32)
    assert first_copies(means, labels=list("abcbca")).tolist() == [0, 1, 2, 1, 2, 0]


def test_the_same_picture_in_batches_of_other_sizes_is_a_copy_and_another_is_not():
    encoder = sf.Encoder.create(sf.EncoderConfig(backbone="tiny", dim=16), seed=1).eval()
    random = np.random.default_rng(0)
    pictures = list(random.integers(0, 255, (9, 24, 24, 3), dtype=np.uint8))
    together = encoder.encode(pictures).mean.double().numpy()
    alone = encoder.encode(pictures[:1]).mean.double().numpy()
    between, length = np.square(together - alone).sum(axis=1), np.square(together).sum(axis=1)
    assert is_copy(between, length, length[:1]).tolist() == [True, *[False] * 8]
