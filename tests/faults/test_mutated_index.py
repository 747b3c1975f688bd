"""Thousands of damaged index folders: an error, a warning or the right answer, nothing else."""

import logging

import pytest
from mutating import outcomes

FINE = {"damaged", "refused", "noticed", "right answer"}


@pytest.mark.faults
def test_ten_thousand_damaged_folders_give_an_error_or_the_right_answer(tmp_path):
    found = outcomes(tmp_path, range(1_000, 11_000))
    logging.getLogger(__name__).info("outcomes: %s", dict(found.most_common()))
    assert found.total() == 10_000
    assert {what for _, what in found} <= FINE


@pytest.mark.faults
def test_two_hundred_flipped_bits_in_each_file_are_noticed_or_harmless(tmp_path):
    found = outcomes(tmp_path, range(800), flips=True)
    logging.getLogger(__name__).info("outcomes: %s", dict(found.most_common()))
    assert found.total() == 800
    assert {what for _, what in found} <= FINE
