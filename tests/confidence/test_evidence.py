"""Evidence: each column against a plain loop."""

from math import asinh, log

import numpy as np
import pytest
from brute_force import BruteForce, brute_force_neighbourhood, nearest_rows, squared
from galleries import random_embeddings, random_rows
from stores import made

from surefind.confidence.evidence import (
    COLUMNS,
    NEIGHBOURS,
    SOURCES,
    Neighbourhood,
    collect_neighbourhood,
    evidence,
    without_query,
)
from surefind.confidence.neighbours import knn_distances_of
from surefind.embeddings import Gaussians
from surefind.engines.base import Space
from surefind.engines.knn import nearest

GALLERY, QUERY = random_embeddings(70, 5, seed=1), random_embeddings(5, 5, seed=2)


class Pair:
    """One query and one of its hits, with the rows around both."""

    def __init__(self, looked: BruteForce, number: int, hit: int) -> None:
        self.means, self.rank = GALLERY.mean.double().numpy(), hit + 1
        self.near, self.its = looked.hits[number], looked.lists[number][hit]
        self.query, self.x = QUERY.mean.double().numpy()[number], self.near[hit]
        self.query_var = float(QUERY.var[number])
        self.expected = float(looked.neighbourhood.expected[number, hit])
        self.std = float(looked.neighbourhood.std[number, hit])
        self.distance = squared(self.query, self.means[self.x])
        self.log_var, self.neighbour_log_var = (
            looked.neighbourhood.log_var[number],
            looked.neighbourhood.neighbour_log_var[number],
        )

    def to_query(self, rank: int) -> float:
        return squared(self.query, self.means[self.near[rank - 1]])

    def to_hit(self, rank: int) -> float:
        return squared(self.means[self.x], self.means[self.its[rank - 1]])

    def behind(self) -> float:
        return self.to_query(min(self.rank + 1, NEIGHBOURS))

    def inverse_local_dimension(self) -> float:
        return sum(log(self.to_query(20) / self.to_query(k)) for k in range(1, 21)) / 20

    def shared(self, count: int) -> float:
        return len(set(self.near[:count]) & set(self.its[:count])) / count

    def distance_profile_correlation(self) -> float:
        others = [row for row in self.near if row != self.x]
        own = [squared(self.query, self.means[row]) for row in others]
        its = [squared(self.means[self.x], self.means[row]) for row in others]
        return float(np.corrcoef(own, its)[0, 1])


NAIVE = {
    "distance": lambda pair: log(pair.distance),
    "next": lambda pair: log(pair.behind()),
    **{f"query_to_{k}": lambda pair, k=k: log(pair.to_query(k)) for k in (5, 10, 20)},
    "behind": lambda pair: log(pair.distance / pair.to_query(1)),
    "inverse_local_dimension": lambda pair: pair.inverse_local_dimension(),
    "rank": lambda pair: log(pair.rank),
    **{f"hit_to_{k}": lambda pair, k=k: log(pair.to_hit(k)) for k in (1, 5, 10, 20)},
    "reverse_rank": lambda pair: log(1 + sum(pair.to_hit(k) < pair.distance for k in range(1, 21))),
    **{f"shared_{k}": lambda pair, k=k: pair.shared(k) for k in (5, 10, 20)},
    "distance_profile_correlation": lambda pair: pair.distance_profile_correlation(),
    "query_var": lambda pair: log(pair.query_var),
    "hit_var": lambda pair: log(GALLERY.var[pair.x]),
    "expected": lambda pair: log(pair.expected),
    "within": lambda pair: asinh((pair.to_hit(10) - pair.expected) / pair.std),
    "ahead": lambda pair: asinh((pair.behind() - pair.distance) / pair.std),
    "log_var": lambda pair: pair.log_var,
    "neighbour_log_var": lambda pair: pair.neighbour_log_var,
}  # fmt: skip


@pytest.fixture(scope="module")
def looked() -> BruteForce:
    found = brute_force_neighbourhood(GALLERY, QUERY)
    random = np.random.default_rng(3)
    log_var, neighbour_log_var = random.normal(size=(2, len(QUERY)))
    return found._replace(
        neighbourhood=found.neighbourhood._replace(log_var=log_var, neighbour_log_var=neighbour_log_var)
    )


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_what_a_plain_loop_over_neighbour_lists_gives(looked, name):
    wanted = [[NAIVE[name](Pair(looked, number, hit)) for hit in range(NEIGHBOURS)] for number in range(len(QUERY))]
    found = evidence(looked.neighbourhood, [name])[..., 0]
    assert found == pytest.approx(np.array(wanted), rel=1e-6, abs=1e-9)


def test_every_column_has_a_known_source_and_every_source_a_column():
    assert {column.source for column in COLUMNS.values()} == set(SOURCES)


def scaled(embeddings: Gaussians, factor: float) -> Gaussians:
    return Gaussians(embeddings.mean * factor, embeddings.var * factor**2)


def test_a_change_of_units_shifts_logarithms_and_leaves_the_rest(looked):
    factor = 8.0  # of the vectors: a power of two, so that nothing is rounded anew
    larger = brute_force_neighbourhood(scaled(GALLERY, factor), scaled(QUERY, factor)).neighbourhood
    before, after = (
        evidence(its, list(COLUMNS)) for its in (brute_force_neighbourhood(GALLERY, QUERY).neighbourhood, larger)
    )
    for place, name in enumerate(COLUMNS):
        logarithm = name in {"distance", "next", "query_var", "hit_var", "expected"}
        moves = logarithm or name.startswith(("query_to", "hit_to"))
        by = 2 * log(factor) if moves else 0.0
        assert after[..., place] - before[..., place] == pytest.approx(by, abs=1e-6), name


def duplicates(copies: int) -> Neighbourhood:
    """A gallery in which each row is there several times, asked with rows of it."""
    rows = np.repeat(np.arange(70 // copies + 1), copies)[:70].tolist()
    return brute_force_neighbourhood(GALLERY[rows], GALLERY[rows][:3]).neighbourhood


@pytest.mark.parametrize("copies", [2, 21, 70])
def test_duplicates_give_finite_evidence(copies):
    found = evidence(duplicates(copies), list(COLUMNS))
    assert np.isfinite(found).all()
    assert np.abs(evidence(duplicates(copies), ["distance_profile_correlation"])).max() <= 1 + 1e-9


def test_a_duplicate_is_not_infinitely_nearer_than_a_near_neighbour():
    """Else one copy would outweigh all other evidence."""
    distance = evidence(duplicates(2), ["distance"])[..., 0]
    assert distance.min() >= distance.max() + log(1e-6) - 5


# through an engine


def engine_neighbourhood(place, rows, query) -> Neighbourhood:
    space = Space(query.family, query.dim, "mean")
    engine = made(place, space=space)
    engine.add(rows)
    near = nearest(engine, query, NEIGHBOURS, ranking="mean")
    keys, place = np.unique(near.keys[:, :NEIGHBOURS], return_inverse=True)
    around = knn_distances_of(engine, keys).astype(np.float64)
    return collect_neighbourhood(
        space,
        space.var(query),
        near,
        hit_knn_distances=around[place.reshape(-1, NEIGHBOURS), :NEIGHBOURS],
        log_var=np.zeros(len(query)),
        neighbour_log_var=np.zeros(len(query)),
    )


@pytest.mark.parametrize("away", [0.0, 3.0, 100.0])
def test_lists_overlap_as_they_truly_do_in_many_dimensions(tmp_path, away):
    """The last neighbour of a hit lies exactly at the radius: rounding must not drop it."""
    rows, query = random_rows(150, 256, seed=6), random_embeddings(40, 256, seed=7)
    query.mean[:, 0] += away
    found = engine_neighbourhood(tmp_path / "store", rows, query)
    means = rows.embeddings.mean.double().numpy()
    between = np.square(means[:, None] - means).sum(axis=-1)
    np.fill_diagonal(between, np.inf)
    lists = between.argsort(axis=1)
    to_query = np.square(query.mean.double().numpy()[:, None] - means).sum(axis=-1).argsort(axis=1)
    for count in (5, 10, 20):
        wanted = [[len({*own[:count]} & {*lists[x][:count]}) / count for x in own[:NEIGHBOURS]] for own in to_query]
        overlap = evidence(found, [f"shared_{count}"])[..., 0]
        assert overlap == pytest.approx(np.array(wanted))


# neighbours of a hit without the query


def neighbours(means, row, *, but=(), count=NEIGHBOURS):
    rows = nearest_rows(means[row], means, but=[row, *but], count=count)
    return [squared(means[row], means[other]) for other in rows]


def test_distances_without_the_query_are_those_of_lists_made_without_it():
    means = random_embeddings(60, 4, seed=0).mean.double().numpy()
    for query in range(6):
        hits = nearest_rows(means[query], means, but=[query], count=NEIGHBOURS)
        around = np.array([neighbours(means, hit, count=NEIGHBOURS + 1) for hit in hits])
        distance = np.array([squared(means[query], means[hit]) for hit in hits])
        kept = around.astype(np.float32).astype(np.float64)  # as they are stored
        wanted = [neighbours(means, hit, but=[query]) for hit in hits]
        assert without_query(kept, distance) == pytest.approx(np.array(wanted), rel=1e-6)


@pytest.mark.parametrize(
    ("query", "left_out"),
    [(1.0, 0), (8.0, 7), (21.0, 20), (30.0, 20), (7.5, 20)],  # the last two are no neighbours
)
def test_the_neighbour_at_the_distance_of_the_query_is_left_out(query: float, left_out: int):
    knn = np.arange(1.0, 22.0)
    found = without_query(knn, np.array(query * (1 + 1e-7)))
    assert np.array_equal(found, np.delete(knn, left_out))


def test_a_query_that_has_a_duplicate_leaves_the_duplicate():
    knn = np.r_[0.0, 0.0, np.arange(1.0, 20.0)]
    assert np.array_equal(without_query(knn, np.array(0.0)), knn[1:])
