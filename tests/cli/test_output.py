"""--quiet, --debug and progress."""

import logging
import warnings

import pytest

from surefind.cli import output
from surefind.cli.output import bars, is_debugging, is_quiet, line, scoped_verbosity, set_verbosity


def test_a_quiet_index_prints_its_result_and_nothing_else(surefind, model, gallery):
    given = ["index", gallery, "--model", model, "-o", "photos.index"]
    for command in (["-q", *given], [*given, "--quiet"]):
        done = surefind(*command)
        assert (done.code, done.err) == (0, "")
        assert "photos.index: 20 images" in done.out


def test_an_error_is_printed_even_if_quiet(surefind):
    assert "error: " in surefind("info", "nowhere", "--quiet").err


def test_quiet_and_debug_end_with_the_command(capsys):
    with scoped_verbosity():
        set_verbosity(quiet=True, debug=True)
        assert is_quiet() and is_debugging()
        warnings.warn("ignored if quiet", stacklevel=1)
        logging.getLogger("surefind.x").debug("a detail")
    assert "DEBUG surefind.x: a detail" in capsys.readouterr().err
    assert not is_quiet() and not is_debugging()
    assert logging.getLogger("surefind").level == logging.NOTSET
    with pytest.raises(UserWarning):
        warnings.warn("an error in tests", stacklevel=1)


def test_progress_is_a_line_now_and_then_and_nothing_if_quiet(capsys):
    with scoped_verbosity():
        with bars() as bar:
            line(bar, "step 1")
        set_verbosity(quiet=True)
        with bars() as bar:
            line(bar, "step 2")
            assert bar.disable
    assert capsys.readouterr().err == "step 1\n"


def test_the_time_left_is_shown_from_the_first_batch_however_slow(capsys, monkeypatch):
    clock = iter([0.0, 100.0, 200.0, 300.0])
    monkeypatch.setattr(output, "monotonic", lambda: next(clock))
    with output.stages() as progress:
        for done in (1, 2):
            progress("encoding", done, 4, "12 images/s")
        progress("writing", 0, 1)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["encoding", "encoding: 2 of 4, 0:03:20 left, 12 images/s", "writing"]
