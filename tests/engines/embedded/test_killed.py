"""A writer killed at any moment loses nothing that it acknowledged."""

from killing import Tally, kill_repeatedly
from stores import made


def test_a_hundred_kills_leave_nothing_unreadable_and_nothing_mixed(place):
    made(place, kind="hnsw")
    tally = kill_repeatedly(place, kills=100, seed=1)
    assert tally == Tally(100, tally.acknowledged, unreadable=0, mixed=0)
    assert tally.acknowledged > 50
