"""Both rankings, whichever is native: equal to brute force, and no wider than need be."""

import numpy as np
import pytest
import torch
from galleries import FAMILIES, random_embeddings
from memory_engine import MemoryEngine

from surefind.embeddings import Embeddings, Gaussians, VonMisesFisher
from surefind.engines.embedded.engine import create
from surefind.engines.engine import Engine, Found, Rows
from surefind.engines.space import Space
from surefind.engines.where import Where
from surefind.functional import expected_distance, squared_distances
from surefind.search.neighbours import nearest

RANKINGS = ("expected", "mean")
GALLERIES, QUESTIONS = 50, 20  # of each native ranking: 1,000 cases for either ranking asked


def rows_of(embeddings: Embeddings) -> Rows:
    count = len(embeddings)
    ids = tuple(str(n) for n in range(count))
    return Rows(ids, embeddings, ("",) * count, tuple({"even": n % 2 == 0} for n in range(count)))


def brute_force(query: Embeddings, gallery: Embeddings, ranking: str) -> np.ndarray:
    wide, all_of_it = query.to(torch.float64), gallery.to(torch.float64)
    if ranking == "mean":
        return squared_distances(wide.mean, all_of_it.mean).numpy()
    return expected_distance(wide, all_of_it).numpy()


def assert_nearest(engine: Engine, near, query, gallery, k: int, ranking: str) -> None:
    """The same rows as brute force; where it has ties up to rounding, the same distances."""
    distance = brute_force(query, gallery, ranking)
    want = np.sort(distance, axis=1)[:, :k]
    tolerance = 1e-6 * (1 + np.abs(want)) if gallery.family == VonMisesFisher.family else 1e-12
    for row in range(len(query)):
        ids = [int(name) for name in engine.rows(near.keys[row]).ids]
        assert len(set(ids)) == min(k, len(gallery))
        assert np.all(np.abs(distance[row, ids] - want[row]) <= np.atleast_2d(tolerance)[-1].max())


@pytest.mark.parametrize("native", RANKINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_both_rankings_equal_brute_force_in_thousands_of_cases(native, family, tmp_path):
    draw = np.random.default_rng(0)
    for number in range(GALLERIES // len(FAMILIES)):
        dim, count = int(draw.integers(2, 40)), int(draw.integers(1, 400))
        spread = float(draw.choice([0.0, 0.1, 1.0, 3.0]))  # of the logarithm of the variances
        gallery = random_embeddings(count, dim, number, family=family, spread=spread)
        query = random_embeddings(QUESTIONS, dim, 1000 + number, family=family)
        engine = create(str(tmp_path / str(number)), Space(family, dim, native), {}, kind="flat")
        engine.add(rows_of(gallery))
        for ranking in RANKINGS:
            k = int(draw.integers(1, 30))
            near = nearest(engine, query, k, ranking=ranking)
            assert_nearest(engine, near, query, gallery, k, ranking)
        engine.close()


def test_close_calls_are_decided_in_float64(tmp_path):
    """Distances that float32 cannot tell apart, around a mean far from zero."""
    draw = torch.Generator().manual_seed(0)
    mean = 100 + 1e-3 * torch.randn(500, 16, generator=draw)
    gallery = Gaussians(mean, torch.full((500,), 1e-4))
    query = Gaussians(100 + 1e-3 * torch.randn(20, 16, generator=draw), torch.full((20,), 1e-4))
    for ranking in RANKINGS:
        engine = create(str(tmp_path / ranking), Space("gaussian", 16, "expected"), {}, kind="flat")
        engine.add(rows_of(gallery))
        near = nearest(engine, query, 5, ranking=ranking)
        assert_nearest(engine, near, query, gallery, 5, ranking)


class Counting(MemoryEngine):
    """Notes how much was fetched, and whether everything was looked at."""

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self.fetched: list[int] = []
        self.scans = 0

    def search(self, vectors, k: int, where: Where | None = None) -> Found:
        self.fetched.append(k)
        return super().search(vectors, k, where)

    def scan(self, where: Where | None = None):
        self.scans += 1
        return super().scan(where)


def counting(spread: float, count: int = 600) -> tuple[Counting, Embeddings]:
    gallery = random_embeddings(count, 8, 0, spread=spread)
    engine = Counting(Space("gaussian", 8))
    engine.add(rows_of(gallery))
    return engine, gallery


def test_equal_variances_need_one_search():
    engine, _ = counting(spread=0.0)
    nearest(engine, random_embeddings(10, 8, 1), 5, ranking="mean")
    assert engine.fetched == [8]


def test_wide_variances_fetch_more_until_proven():
    engine, gallery = counting(spread=1.0)
    query = random_embeddings(10, 8, 1)
    near = nearest(engine, query, 5, ranking="mean")
    assert len(engine.fetched) > 1
    assert_nearest(engine, near, query, gallery, 5, "mean")


def test_everything_is_looked_at_where_an_engine_gives_no_more():
    engine, gallery = counting(spread=1.0)
    engine.most = 20
    query = random_embeddings(10, 8, 1)
    near = nearest(engine, query, 5, ranking="mean")
    assert engine.scans == 1
    assert_nearest(engine, near, query, gallery, 5, "mean")


def test_a_condition_on_the_variance_narrows_the_proof():
    engine, _ = counting(spread=1.0)
    where = Where.parse(["var >= 0.05", "var <= 0.0501"])
    nearest(engine, random_embeddings(3, 8, 1), 5, ranking="mean", where=where)
    free = len(engine.fetched)
    engine.fetched.clear()
    nearest(engine, random_embeddings(3, 8, 1), 5, ranking="mean")
    assert free < len(engine.fetched)


def test_fewer_rows_than_asked_for_are_all_there_is():
    engine, _ = counting(spread=0.1, count=3)
    near = nearest(engine, random_embeddings(2, 8, 1), 10**9, ranking="expected")
    assert near.found.tolist() == [3, 3]


def test_a_condition_that_nothing_satisfies_finds_nothing():
    engine, _ = counting(spread=0.1)
    near = nearest(
        engine, random_embeddings(2, 8, 1), 4, ranking="mean", where=Where.parse(["no = 1"])
    )
    assert near.found.tolist() == [0, 0]


def test_ties_are_returned_once_each():
    gallery = Gaussians(torch.ones(50, 4), torch.ones(50))
    engine = Counting(Space("gaussian", 4))
    engine.add(rows_of(gallery))
    near = nearest(engine, gallery[:2], 10, ranking="expected")
    assert all(len(set(keys.tolist())) == 10 for keys in near.keys)
