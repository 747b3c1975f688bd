"""Damaged index folders: an error, a warning or the right answer, nothing else."""

import pytest
from mutating import outcomes

LONG = pytest.mark.faults


@pytest.mark.parametrize(
    ("numbers", "flips"),
    [
        (range(160), False),
        (range(160), True),
        pytest.param(range(1_000, 11_000), False, marks=LONG),
        pytest.param(range(800), True, marks=LONG),
    ],
)
def test_a_damaged_folder_gives_an_error_or_the_right_answer(tmp_path, numbers, flips: bool):
    found = outcomes(tmp_path, numbers, flips=flips)
    assert found.total() == len(numbers)
    assert {what for _, what in found} <= {"damaged", "refused", "noticed", "right answer"}
    assert any(what == "damaged" for _, what in found)
