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
    3: "unsure, or a promise that cannot be made",
    4: "foreign: the query belongs to nothing in the index",
    70: "a defect in surefind",
    130: "interrupted: Ctrl-C",
    141: "whoever read the output went away",
}
FAILED, DEFECT, INTERRUPTED, UNREAD = 1, 70, 130, 141
_REMEDIES = {
    errno.ENOSPC: "free some space on that disk, or choose another folder",
    errno.EDQUOT: "free some space of your quota, or choose another folder",
    errno.EACCES: "make it readable and writable for you, or choose another place",
    errno.EPERM: "make it readable and writable for you, or choose another place",
    errno.EROFS: "choose a place that can be written to",
    errno.EMFILE: "allow more open files: ulimit -n 4096",
}
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "bad_alloc")  # as torch and faiss say


class Ended(Exception):
    """Around what a command line framework would answer itself: a closed pipe, an end of input."""


class StoppedAsAsked(SurefindError):
    """Ctrl-C was a request, and has been met: everything is saved."""


def tell(failure: BaseException) -> int:
    """Print one message, with a traceback before it if --debug; return the exit code."""
    if isinstance(failure, Ended):
        failure = failure.__cause__ or failure
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
    from surefind.search.printable import printable_lines

    if isinstance(failure, StoppedAsAsked):
        print(printable_lines(f"{failure.problem}; {failure.fix}"), file=sys.stderr)
        return INTERRUPTED
    known = _known(failure)
    if known is not None:
        print(f"error: {printable_lines(str(known))}", file=sys.stderr)
        return FAILED
    kind, message = type(failure).__name__, " ".join(str(failure).split())
    what = f"this is a defect in surefind: {kind}: {message}".removesuffix(": ")
    if not is_debugging():
        what += " (run again with --debug for the details, and report it)"
    print(printable_lines(what), file=sys.stderr)
    return DEFECT


def _known(failure: BaseException) -> SurefindError | None:
    """As a problem the user can act on, if it is one."""
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
        return SurefindError(f"{place}{said}", fix=_REMEDIES.get(failure.errno or 0))
    if isinstance(failure, ModuleNotFoundError) and not (failure.name or "").startswith("surefind"):
        return SurefindError(
            f"{failure.name} is not installed", fix="surefind doctor tells what is missing"
        )
    return None


class StopRequest:
    """Ctrl-C or a polite kill ends the run after the step it is in; a second Ctrl-C ends it now."""

    def __init__(self) -> None:
        self.asked = False
        self._before = signal.signal(signal.SIGINT, self._ask)
        signal.signal(signal.SIGTERM, self._ask)

    def __call__(self) -> bool:
        return self.asked

    def explain(self, error: SurefindError) -> SurefindError:
        """What ended the run: the request, if there was one."""
        return StoppedAsAsked(error.problem, fix=error.fix) if self.asked else error

    def _ask(self, number: int, frame: Any) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._before)
