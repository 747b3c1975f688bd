"""A histogram of variances: every image counted once, in bins that are even in log."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefind.serve.gallery.uncertainty import BINS, uncertainty_of

VARIANCES = st.lists(st.floats(1e-12, 1e6), max_size=60).map(np.array)


@given(VARIANCES)
def test_every_image_is_counted_once(var):
    found = uncertainty_of(var, of=len(var))
    assert sum(found["counts"]) in (0, len(var))
    assert len(found["edges"]) == (len(found["counts"]) + 1 if found["counts"] else 0)


def test_counts_are_those_of_a_loop():
    var = np.exp(np.random.default_rng(0).normal(size=500))
    found = uncertainty_of(var, of=500)
    edges = found["edges"]
    for place, count in enumerate(found["counts"]):
        last = place == BINS - 1
        inside = [v for v in var if edges[place] <= v and (v < edges[place + 1] or last)]
        assert len(inside) == count


def test_edges_are_evenly_spaced_in_log_from_the_least_to_the_most():
    var = np.array([0.001, 0.5, 4.0])
    edges = np.array(uncertainty_of(var, of=3)["edges"])
    assert (edges[0], edges[-1]) == (0.001, 4.0)
    assert np.diff(np.log(edges)) == pytest.approx(np.log(4000) / BINS)


def test_two_variances_lie_in_the_first_and_the_last_bin():
    counts = uncertainty_of(np.array([1.0, 2.0, 2.0]), of=3)["counts"]
    assert (counts[0], counts[-1], sum(counts)) == (1, 2, 3)


@pytest.mark.parametrize("var", [[], [0.1], [0.1, 0.1], [0.1, 0.1 * (1 + 1e-7)]])
def test_where_variances_are_equal_there_is_no_histogram(var):
    found = uncertainty_of(np.array(var), of=9)
    assert (found["edges"], found["counts"], found["images"], found["of"]) == ([], [], len(var), 9)


def test_a_difference_of_a_hundredth_of_a_thousandth_is_shown():
    assert sum(uncertainty_of(np.array([1.0, 1.0 + 1e-5]), of=2)["counts"]) == 2


def test_it_says_how_many_images_there_are_and_the_median():
    found = uncertainty_of(np.array([1.0, 2.0, 9.0]), of=1000)
    assert (found["images"], found["of"], found["median"]) == (3, 1000, 2.0)


def test_an_empty_gallery_has_no_median():
    assert uncertainty_of(np.empty(0), of=0)["median"] is None
