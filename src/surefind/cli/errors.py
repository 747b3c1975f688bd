"""Error messages, exit codes and Ctrl-C."""

import errno
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from surefind.cli.output import is_debugging
from surefind.errors import SurefindError

EXIT_CODES = {
    0: "fine; of a search, a match",
    1: "an error, told in one message; of check, verify and doctor, something is wrong",
    2: "wrong usage",
    3: "unsure, or a guarantee that cannot be made",
    4: "foreign: the query belongs to nothing in the index",
    70: "a defect in surefind",
    130: "interrupted: Ctrl-C",
    141: "whoever read the output went away",
}
FAILED, DEFECT, INTERRUPTED, UNREAD = 1, 70, 130, 141
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "bad_alloc")  # as torch and faiss say


class StoppedAsAsked(SurefindError):
    """Ctrl-C was a request, and has been met: everything is saved."""


def tell(failure: BaseException) -> int:
    """Print one message, with a traceback before it if --debug; return the exit code."""
    if isinstance(failure, SystemExit):  # typer has told it, but for a closed pipe
        error: BaseException | None = failure
        while error is not None and not isinstance(error, BrokenPipeError):
            error = error.__cause__ or error.__context__
        if error is None:
            return failure.code if isinstance(failure.code, int) else int(bool(failure.code))
        failure = error
    if isinstance(failure, BrokenPipeError):
        # What is still to be written goes nowhere, so that Python does not try it again at its end.
        with suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        return UNREAD
    if is_debugging():
        from traceback import print_exception

        print_exception(failure)
    from surefind.text import printable_lines

    known = _known(failure)
    if isinstance(failure, StoppedAsAsked):
        code, text = INTERRUPTED, f"{failure.problem}; {failure.fix}"
    elif known is not None:
        code, text = FAILED, f"error: {known}"
    else:
        kind, message = type(failure).__name__, " ".join(str(failure).split())
        code, text = DEFECT, f"this is a defect in surefind: {kind}: {message}".removesuffix(": ")
        if not is_debugging():
            text += " (run again with --debug for the details, and report it)"
    print(printable_lines(text), file=sys.stderr)
    return code


def _known(failure: BaseException) -> SurefindError | None:
    """Return the failure as a problem the user can act on, if it is one."""
    if isinstance(failure, SurefindError):
        return failure
    exhausted = isinstance(failure, RuntimeError) and any(
        words in str(failure) for words in _OUT_OF_MEMORY
    )
    if isinstance(failure, MemoryError) or exhausted:
        return SurefindError(
            f"out of memory: {failure}".removesuffix(": "),
            fix="end other programs, or use less at once; surefind doctor tells what there is",
        )
    if isinstance(failure, OSError):
        place = "" if failure.filename is None else f"{os.fsdecode(failure.filename)}: "
        said = failure.strerror or str(failure) or type(failure).__name__
        more_files = "allow more open files: ulimit -n 4096"
        fix = more_files if failure.errno == errno.EMFILE else None
        return SurefindError(f"{place}{said}", fix=fix)
    if isinstance(failure, ModuleNotFoundError) and not (failure.name or "").startswith("surefind"):
        return SurefindError(
            f"{failure.name} is not installed", fix="surefind doctor tells what is missing"
        )
    return None


class StopRequest:
    """Ctrl-C or SIGTERM ends the run after the step it is in; a second Ctrl-C ends it now."""

    def __init__(self) -> None:
        self.asked = False
        self._before = signal.signal(signal.SIGINT, self._ask)
        signal.signal(signal.SIGTERM, self._ask)

    def __call__(self) -> bool:
        return self.asked

    def _ask(self, number: int, frame: Any) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._before)
