"""A writer of an index killed a thousand times: nothing acknowledged is lost, nothing is mixed."""

import logging

import pytest
from killing import Tally, kill_repeatedly
from stores import made


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_a_thousand_kills_leave_nothing_unreadable_and_nothing_mixed(tmp_path, kind: str):
    made(tmp_path / "index", kind=kind)
    tally = kill_repeatedly(tmp_path / "index", kills=500, seed=len(kind))
    logging.getLogger(__name__).info("%s", tally)
    assert tally == Tally(500, tally.acknowledged, unreadable=0, mixed=0)
    assert tally.acknowledged > 250
