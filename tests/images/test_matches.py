"""Who matches whom, against a plain loop over all pairs."""

from collections.abc import Callable
from math import dist
from pathlib import Path

import numpy as np
import pytest

from surefind.errors import InvalidArgument, InvalidFile
from surefind.images.catalog import Catalog
from surefind.images.matches import ByLabel, ByPosition, Matches, matches_of

N = 60
RANDOM = np.random.default_rng(0)
CODES = RANDOM.integers(0, 9, N)
POSITIONS = [(float(x), float(y)) for x, y in RANDOM.integers(0, 20, (N, 2)) * 5]  # ties included

Pair = Callable[[int, int], bool]
CASES: dict[str, tuple[Matches, Pair, Pair]] = {
    "labels": (ByLabel(CODES), lambda a, b: bool(CODES[a] == CODES[b]), lambda a, b: bool(CODES[a] != CODES[b])),
    "positions": (
        ByPosition(POSITIONS),
        lambda a, b: dist(POSITIONS[a], POSITIONS[b]) <= 25,
        lambda a, b: dist(POSITIONS[a], POSITIONS[b]) > 25,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_positives_are_those_of_a_plain_loop(case: str):
    matches, alike, _ = CASES[case]
    for row in range(N):
        expected = [other for other in range(N) if other != row and alike(row, other)]
        found = matches.positives(row)
        assert found.tolist() == expected
        assert found.dtype == np.int64


@pytest.mark.parametrize("case", CASES)
def test_pairs_are_those_of_a_plain_loop(case: str):
    matches, alike, unlike = CASES[case]
    rows, others = np.array([3, 0, 59, 3]), np.arange(N)[::-1]
    expected = [[bool(a != b and alike(a, b)) for b in others] for a in rows]
    assert matches.is_match(rows, others).tolist() == expected
    expected = [[unlike(a, b) for b in others] for a in rows]
    assert matches.is_negative(rows, others).tolist() == expected


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("among", [np.arange(N), np.arange(0, N, 3), np.arange(0)])
def test_matches_are_counted_as_in_a_plain_loop(case: str, among: np.ndarray):
    matches, alike, _ = CASES[case]
    rows = np.array([3, 0, 59, 3])
    expected = [sum(bool(a != b and alike(a, b)) for b in among) for a in rows]
    assert matches.count(rows, among).tolist() == expected


def test_labels_come_before_positions():
    paths = ("a.jpg", "b.jpg", "c.jpg")
    labelled = Catalog(Path("photos"), paths, labels=("x", "y", "x"), positions=((0, 0),) * 3)
    assert matches_of(labelled).positives(0).tolist() == [2]
    placed = Catalog(Path("photos"), paths, positions=((0, 0), (3, 0), (30, 0)))
    assert matches_of(placed).positives(0).tolist() == [1]
    assert matches_of(placed, radius=30).positives(0).tolist() == [1, 2]


def test_a_catalog_without_truth_is_an_error_with_a_remedy():
    with pytest.raises(InvalidFile, match="neither labels nor positions\n  fix: put each class"):
        matches_of(Catalog(Path("photos"), ("a.jpg",)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: ByLabel([[0, 1]]), "codes: expected one label per image"),
        (lambda: ByPosition([0.0, 1.0]), "positions: expected finite metres"),
        (lambda: ByPosition([(0, 0), (0, float("nan"))]), "positions: .*nan or infinity"),
        (lambda: ByPosition([(0, 0)], radius=0), "radius"),
    ],
)
def test_what_cannot_be_is_refused(wrong: Callable[[], Matches], message: str):
    with pytest.raises(InvalidArgument, match=message):
        wrong()
