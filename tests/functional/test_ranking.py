"""Ranking keys and search vectors, in either ranking."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sampling import Draw

import surefind as sf
from surefind.functional import (
    candidate_distances,
    expected_distance,
    gallery_vectors,
    query_vectors,
    ranking_keys,
    squared_distances,
)

RANKINGS = ("expected", "mean")


def keys_of(query: sf.Embeddings, gallery: sf.Embeddings, ranking: str) -> NDArray[np.float64]:
    means = gallery.mean.numpy()[None].repeat(len(query), 0)
    wide = gallery.var.numpy()[None].repeat(len(query), 0)
    between = candidate_distances(query.mean.numpy(), means)
    return ranking_keys(between, wide, dim=query.dim, family=query.family, ranking=ranking)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("dim", [2, 64])
def test_keys_are_what_an_engine_ranks_by(family: str, dim: int, draw: Draw):
    query, gallery = getattr(draw, family)(5, dim), getattr(draw, family)(30, dim)
    by_engine = {
        "mean": squared_distances(query.mean, gallery.mean),
        "expected": squared_distances(query_vectors(query), gallery_vectors(gallery)),
    }
    for ranking, wanted in by_engine.items():
        np.testing.assert_allclose(keys_of(query, gallery, ranking), wanted.numpy(), rtol=1e-9, atol=1e-12)
    order = expected_distance(query, gallery).argsort(dim=1)
    assert torch.equal(by_engine["expected"].argsort(dim=1), order)


def test_keys_of_close_vectors_in_single_precision_keep_their_digits(draw: Draw):
    near = (50 + 1e-4 * draw.gaussians(3, 32).mean).float().numpy()
    ours = candidate_distances(near[:1].astype(np.float64), near[None, 1:])
    wide = near.astype(np.float64)
    np.testing.assert_allclose(ours[0], ((wide[0] - wide[1:]) ** 2).sum(1), rtol=1e-12)
    assert ours.dtype == np.float64


def test_columns_without_a_candidate_do_not_fail():
    """An engine leaves them as they are, with a variance of 0."""
    ours = ranking_keys(np.ones((2, 1)), np.zeros((2, 1)), dim=2, family="von-mises-fisher", ranking="expected")
    assert ours.shape == (2, 1)
