"""Some hundred damaged index folders; `make faults` tries ten thousand."""

import pytest
from mutating import outcomes


@pytest.mark.parametrize("flips", [False, True])
def test_a_damaged_folder_gives_an_error_or_the_right_answer(tmp_path, flips: bool):
    found = outcomes(tmp_path, range(160), flips=flips)
    assert found.total() == 160
    assert {what for _, what in found} <= {"damaged", "refused", "noticed", "right answer"}
    assert any(what == "damaged" for _, what in found)
