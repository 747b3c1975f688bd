"""Who asks and who is searched, in the three ways that data can say it."""

from pathlib import Path

import numpy as np
import pytest

from surefind.errors import InvalidFile, SurefindError
from surefind.images.catalog import Catalog
from surefind.reports.protocol import protocol_of


def catalog(n: int = 6, **columns: tuple) -> Catalog:
    return Catalog(Path("photos"), tuple(f"{row}.png" for row in range(n)), **columns)


def test_without_queries_each_image_searches_all_others():
    protocol = protocol_of(catalog(labels=("a", "a", "a", "b", "b", "c")))
    assert protocol.queries.tolist() == protocol.gallery.tolist() == list(range(6))
    assert protocol.itself.tolist() == list(range(6))
    assert protocol.n_matches.tolist() == [2, 2, 2, 1, 1, 0]
    assert "each of 6 images searches all the others" in protocol.description


def test_named_queries_search_only_the_rest():
    queries = (True, False, False, True, False, False)
    protocol = protocol_of(catalog(labels=("a", "a", "a", "b", "b", "c"), queries=queries))
    assert protocol.queries.tolist() == [0, 3]
    assert protocol.gallery.tolist() == [1, 2, 4, 5]
    assert protocol.itself is None
    assert protocol.n_matches.tolist() == [2, 1]
    hits = protocol.hits(np.array([[0, 2], [2, 3]]))
    assert hits.tolist() == [[True, False], [True, False]]


def test_places_match_within_the_radius():
    positions = ((0.0, 0.0), (0.0, 20.0), (0.0, 40.0), (500.0, 0.0), (501.0, 0.0), (900.0, 0.0))
    assert protocol_of(catalog(positions=positions)).n_matches.tolist() == [1, 2, 1, 1, 1, 0]
    wide = protocol_of(catalog(positions=positions), radius=50)
    assert wide.n_matches.tolist() == [2, 2, 2, 1, 1, 0]
    assert "within 50 m" in wide.description


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"labels": tuple("abcdef")}, "no two images share one"),
        (
            {"labels": tuple("aabbcc"), "queries": (True, True, False, False, False, False)},
            "queries and gallery have none in common",
        ),
        ({"positions": tuple((1000.0 * row, 0.0) for row in range(6))}, "larger --radius"),
        ({"labels": tuple("aaaaaa"), "queries": (True,) * 6}, "two images to search"),
        ({"labels": tuple("aaaaaa"), "queries": (False,) * 6}, "at least one query"),
    ],
)
def test_data_without_a_single_match_is_refused(columns: dict, match: str):
    with pytest.raises(SurefindError, match=match):
        protocol_of(catalog(**columns))


def test_images_of_which_nothing_is_known_are_refused():
    with pytest.raises(InvalidFile, match="neither labels nor positions"):
        protocol_of(catalog())
