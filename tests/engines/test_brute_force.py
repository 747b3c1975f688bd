"""Exhaustive search against sorting all distances."""

import pytest
import torch
from torch import Tensor

from surefind.engines.knn import nearest_rows


def points(n: int, dim: int = 8, seed: int = 0) -> Tensor:
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(seed))


def sorted_by_hand(query: Tensor, gallery: Tensor, k: int, itself: Tensor | None) -> Tensor:
    distances = (query.double()[:, None] - gallery.double()).square().sum(-1)
    if itself is not None:
        distances[torch.arange(len(query)), itself] = torch.inf
    return distances.argsort(dim=1, stable=True)[:, :k]


@pytest.mark.parametrize("k", [1, 5, 29])
@pytest.mark.parametrize("queries", [1, 7, 20_000])
def test_neighbours_are_those_of_a_full_sort(k: int, queries: int):
    query, gallery = points(queries), points(30, seed=1)
    rows, distance = nearest_rows(query, gallery, k)
    assert torch.equal(rows, sorted_by_hand(query, gallery, k, None))
    torch.testing.assert_close(distance, (query[:, None] - gallery[rows]).square().sum(-1))


def test_a_query_is_not_its_own_neighbour_even_among_duplicates():
    gallery = points(4).repeat(5, 1)  # every point five times
    itself = torch.arange(20)
    rows, distance = nearest_rows(gallery, gallery, 4, itself=itself)
    assert not (rows == itself[:, None]).any()
    assert (distance == 0).all()
    assert torch.equal(rows, sorted_by_hand(gallery, gallery, 4, itself))


def test_asking_for_more_than_there_is_gives_all():
    query = points(5)
    assert nearest_rows(query, query, 100).rows.shape == (5, 5)
    assert nearest_rows(query, query, 100, itself=torch.arange(5)).rows.shape == (5, 4)


def test_distances_of_close_pairs_keep_their_digits():
    query = 100 + torch.zeros(1, 64)
    gallery = query + torch.tensor([[1e-3], [2e-3]])
    _, distance = nearest_rows(query, gallery, 2)
    wanted = (gallery.double() - query.double()).square().sum(-1)[None]
    torch.testing.assert_close(distance.double(), wanted, rtol=1e-6, atol=0)
