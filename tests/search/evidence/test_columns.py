"""Evidence: each column against a plain loop over lists of neighbours."""

from math import asinh, log

import numpy as np
import pytest
import torch
from galleries import random_embeddings
from looking import Looked, look, squared

from surefind.embeddings import Gaussians
from surefind.search.evidence.columns import COLUMNS, SOURCES, evidence
from surefind.search.evidence.seen import NEIGHBOURS, Seen

GALLERY, QUERY = random_embeddings(70, 5, seed=1), random_embeddings(5, 5, seed=2)
ALWAYS = [name for name, column in COLUMNS.items() if column.source != "variance"]


class Pair:
    """One query and one of its hits, with the rows around both."""

    def __init__(self, looked: Looked, number: int, hit: int) -> None:
        self.means, self.rank = GALLERY.mean.double().numpy(), hit + 1
        self.near, self.its = looked.hits[number], looked.lists[number][hit]
        self.query, self.x = QUERY.mean.double().numpy()[number], self.near[hit]
        self.query_var = float(QUERY.var[number])
        self.expected = float(looked.seen.expected[number, hit])
        self.std = float(looked.seen.std[number, hit])
        self.distance = squared(self.query, self.means[self.x])
        self.doubt, self.near_doubt = looked.seen.doubt[number], looked.seen.near_doubt[number]

    def to_query(self, rank: int) -> float:
        return squared(self.query, self.means[self.near[rank - 1]])

    def to_hit(self, rank: int) -> float:
        return squared(self.means[self.x], self.means[self.its[rank - 1]])

    def behind(self) -> float:
        return self.to_query(min(self.rank + 1, NEIGHBOURS))

    def thinning(self) -> float:
        return sum(log(self.to_query(20) / self.to_query(k)) for k in range(1, 21)) / 20

    def shared(self, count: int) -> float:
        return len(set(self.near[:count]) & set(self.its[:count])) / count

    def alike(self) -> float:
        others = [row for row in self.near if row != self.x]
        own = [squared(self.query, self.means[row]) for row in others]
        its = [squared(self.means[self.x], self.means[row]) for row in others]
        return float(np.corrcoef(own, its)[0, 1])


NAIVE = {
    "distance": lambda pair: log(pair.distance),
    "next": lambda pair: log(pair.behind()),
    **{f"query_to_{k}": lambda pair, k=k: log(pair.to_query(k)) for k in (5, 10, 20)},
    "behind": lambda pair: log(pair.distance / pair.to_query(1)),
    "thinning": lambda pair: pair.thinning(),
    "rank": lambda pair: log(pair.rank),
    **{f"hit_to_{k}": lambda pair, k=k: log(pair.to_hit(k)) for k in (1, 5, 10, 20)},
    "rank_back": lambda pair: log(1 + sum(pair.to_hit(k + 1) < pair.distance for k in range(20))),
    **{f"shared_{k}": lambda pair, k=k: pair.shared(k) for k in (5, 10, 20)},
    "alike": lambda pair: pair.alike(),
    "query_var": lambda pair: log(pair.query_var),
    "hit_var": lambda pair: log(GALLERY.var[pair.x]),
    "expected": lambda pair: log(pair.expected),
    "within": lambda pair: asinh((pair.to_hit(10) - pair.expected) / pair.std),
    "ahead": lambda pair: asinh((pair.behind() - pair.distance) / pair.std),
    "doubt": lambda pair: pair.doubt[0],
    "near_doubt": lambda pair: pair.near_doubt,
    "disagreement": lambda pair: pair.doubt[1],
}  # fmt: skip


@pytest.fixture(scope="module")
def looked() -> Looked:
    found = look(GALLERY, QUERY)
    random = np.random.default_rng(3)
    doubt, near_doubt = random.normal(size=(len(QUERY), 2)), random.normal(size=len(QUERY))
    return found._replace(seen=found.seen._replace(doubt=doubt, near_doubt=near_doubt))


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_what_a_plain_loop_over_neighbour_lists_gives(looked, name):
    wanted = [
        [NAIVE[name](Pair(looked, number, hit)) for hit in range(NEIGHBOURS)]
        for number in range(len(QUERY))
    ]
    found = evidence(looked.seen, [name])[..., 0]
    assert found == pytest.approx(np.array(wanted), rel=1e-6, abs=1e-9)


def test_columns_come_in_the_order_of_their_names(looked):
    both = evidence(looked.seen, ["alike", "distance"])
    assert np.array_equal(both[..., 0], evidence(looked.seen, ["alike"])[..., 0])
    assert np.array_equal(both[..., 1], evidence(looked.seen, ["distance"])[..., 0])


def test_every_column_has_a_known_source_and_every_source_a_column():
    assert {column.source for column in COLUMNS.values()} == set(SOURCES)


def scaled(embeddings: Gaussians, factor: float) -> Gaussians:
    return Gaussians(embeddings.mean * factor, embeddings.var * factor**2)


def test_a_change_of_units_shifts_logarithms_and_leaves_the_rest(looked):
    factor = 8.0  # of the vectors: a power of two, so that nothing is rounded anew
    larger = look(scaled(GALLERY, factor), scaled(QUERY, factor)).seen
    before, after = (evidence(seen, list(COLUMNS)) for seen in (look(GALLERY, QUERY).seen, larger))
    for place, name in enumerate(COLUMNS):
        logarithm = name in {"distance", "next", "query_var", "hit_var", "expected"}
        moves = logarithm or name.startswith(("query_to", "hit_to"))
        by = 2 * log(factor) if moves else 0.0
        assert after[..., place] - before[..., place] == pytest.approx(by, abs=1e-6), name


def duplicates(copies: int) -> Seen:
    """A gallery in which each row is there several times, asked with rows of it."""
    rows = np.repeat(np.arange(70 // copies + 1), copies)[:70].tolist()
    return look(GALLERY[rows], GALLERY[rows][:3]).seen


@pytest.mark.parametrize("copies", [2, 21, 70])
def test_duplicates_give_finite_evidence(copies):
    found = evidence(duplicates(copies), list(COLUMNS))
    assert np.isfinite(found).all()
    assert np.abs(evidence(duplicates(copies), ["alike"])).max() <= 1 + 1e-9


def test_a_duplicate_is_not_infinitely_nearer_than_a_near_neighbour():
    """Else one copy would outweigh all other evidence."""
    distance = evidence(duplicates(2), ["distance"])[..., 0]
    assert distance.min() >= distance.max() + log(1e-6) - 5


def test_a_hit_that_is_nearer_to_the_query_than_to_its_own_neighbours_has_nobody_before_it():
    means = np.array(
        [[1.0 + 0.01 * n, 3.0 * n] + [0.0] * 3 for n in range(1, 30)], dtype=np.float32
    )
    gallery = Gaussians(torch.from_numpy(means), torch.ones(len(means)))
    query = Gaussians(torch.from_numpy(means[:1] + 0.1), torch.ones(1))
    first = evidence(look(gallery, query).seen, ["rank_back", "shared_5"])[0, 0]
    assert first[0] == 0
    assert first[1] == pytest.approx(4 / 5)


@pytest.mark.parametrize("name", ALWAYS)
def test_what_is_not_a_variance_does_not_depend_on_variances(looked, name):
    vague = look(
        Gaussians(GALLERY.mean, GALLERY.var * 3), Gaussians(QUERY.mean, QUERY.var * 5)
    ).seen._replace(doubt=looked.seen.doubt, near_doubt=looked.seen.near_doubt)
    assert np.array_equal(evidence(vague, [name]), evidence(looked.seen, [name]))
