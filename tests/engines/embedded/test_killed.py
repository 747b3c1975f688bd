"""A writer of an index that is killed leaves everything that it acknowledged."""

import pytest
from killing import Tally, kill_repeatedly
from stores import made


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("hnsw", 100),
        pytest.param("flat", 500, marks=pytest.mark.faults),
        pytest.param("hnsw", 500, marks=pytest.mark.faults),
    ],
)
def test_kills_leave_nothing_unreadable_and_nothing_mixed(place, kind: str, kills: int):
    made(place, kind=kind)
    tally = kill_repeatedly(place, kills=kills, seed=1)
    assert tally == Tally(kills, tally.acknowledged, unreadable=0, mixed=0)
    assert tally.acknowledged > kills // 2
