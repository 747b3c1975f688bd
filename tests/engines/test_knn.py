"""The k nearest in either ranking: equal to brute force in the native one, re-ranked otherwise."""

import numpy as np
import pytest
import torch
from galleries import FAMILIES, plain_rows, random_embeddings
from memory_engine import MemoryEngine
from torch import Tensor

from surefind.embeddings import Embeddings, Gaussians, VonMisesFisher
from surefind.engines import knn
from surefind.engines.base import Engine, Found, Space
from surefind.engines.embedded.engine import create
from surefind.engines.filters import Where
from surefind.engines.knn import nearest, nearest_rows
from surefind.functional import expected_distance, squared_distances

RANKINGS = ("expected", "mean")


def brute_force(query: Embeddings, gallery: Embeddings, ranking: str) -> np.ndarray:
    wide, all_of_it = query.to(torch.float64), gallery.to(torch.float64)
    if ranking == "mean":
        return squared_distances(wide.mean, all_of_it.mean).numpy()
    return expected_distance(wide, all_of_it).numpy()


def assert_nearest(engine: Engine, near, query, gallery, k: int, ranking: str) -> None:
    """The same rows as brute force; where it has ties up to rounding, the same distances."""
    distance = brute_force(query, gallery, ranking)
    want = np.sort(distance, axis=1)[:, :k]
    tolerance = 1e-6 * (1 + want.max()) if gallery.family == VonMisesFisher.family else 1e-12
    for row in range(len(query)):
        ids = [int(name) for name in engine.rows(near.keys[row]).ids]
        assert len(set(ids)) == min(k, len(gallery))
        assert np.all(np.abs(distance[row, ids] - want[row]) <= tolerance)


@pytest.mark.parametrize("native", RANKINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_native_ranking_equals_brute_force(native, family, tmp_path):
    draw = np.random.default_rng(0)
    for number in range(12):
        dim, count = int(draw.integers(2, 40)), int(draw.integers(1, 400))
        spread = float(draw.choice([0.0, 0.1, 1.0, 3.0]))  # of the logarithm of the variances
        gallery = random_embeddings(count, dim, number, family=family, spread=spread)
        query = random_embeddings(20, dim, 1000 + number, family=family)
        engine = create(str(tmp_path / str(number)), Space(family, dim, native), {}, kind="flat")
        engine.add(plain_rows(gallery))
        k = int(draw.integers(1, 30))
        near = nearest(engine, query, k, ranking=native)
        assert_nearest(engine, near, query, gallery, k, native)
        engine.close()


def test_close_calls_are_ordered_in_float64(tmp_path):
    """Distances that float32 cannot tell apart, around a mean far from zero."""
    draw = torch.Generator().manual_seed(0)
    gallery = Gaussians(100 + 1e-3 * torch.randn(8, 16, generator=draw), torch.full((8,), 1e-4))
    query = Gaussians(100 + 1e-3 * torch.randn(20, 16, generator=draw), torch.full((20,), 1e-4))
    engine = create(str(tmp_path / "store"), Space("gaussian", 16, "mean"), {}, kind="flat")
    engine.add(plain_rows(gallery))
    near = nearest(engine, query, 5, ranking="mean")
    assert_nearest(engine, near, query, gallery, 5, "mean")


class Counting(MemoryEngine):
    """Notes how much was fetched."""

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self.fetched: list[int] = []

    def search(self, vectors, k: int, where: Where | None = None) -> Found:
        self.fetched.append(k)
        return super().search(vectors, k, where)


def counting(spread: float, count: int = 600) -> tuple[Counting, Embeddings]:
    gallery = random_embeddings(count, 8, 0, spread=spread)
    engine = Counting(Space("gaussian", 8))
    engine.add(plain_rows(gallery))
    return engine, gallery


@pytest.mark.parametrize(("k", "candidates"), [(5, 100), (20, 200)])
def test_the_other_ranking_orders_the_native_candidates_anew(k, candidates):
    engine, gallery = counting(spread=1.0)
    query = random_embeddings(10, 8, 1)
    near = nearest(engine, query, k, ranking="mean")
    assert engine.fetched == [candidates]
    native = np.argsort(brute_force(query, gallery, "expected"), axis=1)[:, :candidates]
    means = np.take_along_axis(brute_force(query, gallery, "mean"), native, axis=1)
    want = np.take_along_axis(native, np.argsort(means, axis=1)[:, :k], axis=1)
    assert near.keys.tolist() == want.tolist()


def test_an_engine_is_asked_for_no_more_than_it_can_return():
    engine, _ = counting(spread=1.0)
    engine.max_k = 20
    near = nearest(engine, random_embeddings(10, 8, 1), 19, ranking="mean")
    assert engine.fetched == [20]
    assert near.keys.shape == (10, 19)


def test_many_queries_are_asked_in_parts(monkeypatch):
    engine, _ = counting(spread=0.5)
    query = random_embeddings(10, 8, 1)
    whole = nearest(engine, query, 4, ranking="expected")
    monkeypatch.setattr(knn, "NUMBERS_AT_ONCE", 3 * 7 * 9)
    parts = nearest(engine, query, 4, ranking="expected")
    assert len(engine.fetched) == 1 + 4
    assert all((one == other).all() for one, other in zip(whole, parts, strict=True))


def test_fewer_rows_than_asked_for_are_all_there_is():
    engine, _ = counting(spread=0.1, count=3)
    near = nearest(engine, random_embeddings(2, 8, 1), 10**9, ranking="expected")
    assert near.found.tolist() == [3, 3]
    nothing = Where.parse(["var > 1e6"])
    near = nearest(engine, random_embeddings(2, 8, 1), 4, ranking="mean", where=nothing)
    assert near.found.tolist() == [0, 0]


# in memory


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
