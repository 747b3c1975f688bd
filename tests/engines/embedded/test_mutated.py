"""Damaged folders give an error or the right answer, never a crash or a wrong one."""

from mutating import outcomes

FINE = {"damaged", "refused", "warned", "right answer"}


def test_three_hundred_damaged_folders_give_an_error_or_the_right_answer(tmp_path):
    found = outcomes(tmp_path, range(300))
    assert found.total() == 300
    assert set(found) <= FINE
