"""Neighbours of a hit without the query, and parts of what was seen."""

import numpy as np
import pytest
from galleries import random_embeddings
from looking import look, nearest_rows, squared

from surefind.search.evidence.seen import NEIGHBOURS, Seen, without_query


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


def test_of_a_query_that_is_too_far_to_be_a_neighbour_the_nearest_others_stay():
    around = np.arange(1.0, 22.0)
    assert np.array_equal(without_query(around, np.array(30.0)), around[:-1])


def test_a_query_too_vague_to_be_a_neighbour_takes_nobodys_place():
    """In expected order it may be nearer than some neighbours and yet not be one of them."""
    around = np.arange(1.0, 22.0)
    assert np.array_equal(without_query(around, np.array(7.5)), around[:-1])


@pytest.mark.parametrize("place", [0, 7, 20])
def test_the_one_at_the_distance_of_the_query_is_left_out(place):
    around = np.arange(1.0, 22.0)
    assert np.array_equal(
        without_query(around, around[place] * (1 + 1e-7)), np.delete(around, place)
    )


def test_a_query_that_has_a_duplicate_leaves_the_duplicate():
    around = np.r_[0.0, 0.0, np.arange(1.0, 20.0)]
    assert np.array_equal(without_query(around, np.array(0.0)), around[1:])


def test_parts_joined_are_the_whole():
    seen = look(random_embeddings(40, 3, seed=1), random_embeddings(6, 3, seed=2)).seen
    parts = [seen.at(np.array(rows)) for rows in ([0, 1, 2], [3], [4, 5])]
    for column, whole in zip(Seen.joined(parts), seen, strict=True):
        assert np.array_equal(column, whole)
