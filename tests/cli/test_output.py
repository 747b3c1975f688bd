"""--quiet and --debug: what is said beside the result."""

import logging
import warnings

import pytest

from surefind.cli.output import is_debugging, is_quiet, own_verbosity, speak


@pytest.mark.parametrize("before", [True, False], ids=["before the command", "after it"])
def test_a_quiet_index_prints_its_result_and_nothing_else(surefind, model, gallery, before):
    given = ["index", model, gallery, "-o", "photos.index"]
    done = surefind("-q", *given) if before else surefind(*given, "--quiet")
    assert done.code == 0
    assert "20 images added" in done.out
    assert done.err == ""


def test_an_error_is_told_even_if_quiet(surefind):
    assert "error: " in surefind("info", "nowhere", "--quiet").err


def test_warnings_of_other_packages_are_silent_if_quiet():
    with own_verbosity():
        speak(quiet=True)
        warnings.warn("in the way", stacklevel=1)
    with pytest.raises(UserWarning):
        warnings.warn("in the way", stacklevel=1)


def test_what_was_asked_for_ends_with_the_command():
    with own_verbosity():
        speak(quiet=True, debug=True)
        assert is_quiet() and is_debugging()
    assert not is_quiet() and not is_debugging()
    assert logging.getLogger("surefind").level == logging.NOTSET


def test_debug_shows_the_log_of_surefind(capsys):
    with own_verbosity():
        speak(debug=True)
        logging.getLogger("surefind.split").debug("a detail")
    assert "DEBUG surefind.split: a detail" in capsys.readouterr().err


def test_progress_is_a_line_now_and_then_and_nothing_if_quiet(capsys):
    from surefind.cli.output import bars, line

    with own_verbosity():
        with bars() as bar:
            line(bar, "step 1")
        speak(quiet=True)
        with bars() as bar:
            line(bar, "step 2")
            assert bar.disable
    assert capsys.readouterr().err == "step 1\n"
