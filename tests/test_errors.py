"""Errors say what to do."""

from surefind.errors import InvalidArgument, SurefindError


def test_an_error_carries_its_remedy():
    error = SurefindError("the folder is empty", fix="point at a folder with images")
    assert str(error) == "the folder is empty\n  fix: point at a folder with images"
    assert (error.problem, error.fix) == ("the folder is empty", "point at a folder with images")


def test_an_invalid_argument_names_it_and_what_was_expected_and_what_came():
    error = InvalidArgument("k", expected="at least 1", got="0", fix="ask for one hit")
    assert error.problem == "k: expected at least 1, got 0"
    assert isinstance(error, SurefindError)
    assert isinstance(error, ValueError)
