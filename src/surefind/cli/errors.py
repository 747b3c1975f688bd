"""Error messages, exit codes and stop requests."""

import errno
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from surefind.cli.output import is_debugging
from surefind.errors import SurefindError

EXIT_CODES = {
    0: "success; for `search`: match",
    1: "error; for `check`, `verify` and `doctor`: a problem was found",
    2: "wrong usage",
    3: "for `search`: unsure; for `calibrate` and `upgrade`: no guarantee, or the queries drifted; "
    "for `evaluate`: the guarantee of an index was not kept",
    4: "for `search`: not in the catalogue (no_match)",
    5: "for `search`: nothing found; a filter left no image",
    70: "internal error, please report",
    130: "interrupted (Ctrl-C)",
    141: "output pipe closed",
}
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "bad_alloc")  # of torch and faiss


class GracefulStop(SurefindError):
    """A run that ended on request (Ctrl-C), with everything saved."""


def report_error(failure: BaseException) -> int:
    """Print one message, after a traceback if --debug, and return the exit code."""
    if isinstance(failure, SystemExit):  # typer has printed it, except for a closed pipe
        error: BaseException | None = failure
        while error is not None and not isinstance(error, BrokenPipeError):
            error = error.__cause__ or error.__context__
        if error is None:
            return failure.code if isinstance(failure.code, int) else int(bool(failure.code))
        failure = error
    if isinstance(failure, BrokenPipeError):
        with suppress(OSError, ValueError, AttributeError):  # or Python flushes it at its end
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        return 141
    if is_debugging():
        from traceback import print_exception

        print_exception(failure)
    from surefind.text import printable_lines

    known = _as_surefind_error(failure)
    if isinstance(failure, GracefulStop):
        code, text = 130, f"{failure.problem}; {failure.fix}"
    elif known is not None:
        code, text = 1, f"error: {known}"
    else:
        kind, message = type(failure).__name__, " ".join(str(failure).split())
        code, text = 70, f"internal error: {kind}: {message}".removesuffix(": ")
        if not is_debugging():
            text += " (please report it, with the output of the same command with --debug)"
    print(printable_lines(text), file=sys.stderr)
    return code


def _as_surefind_error(failure: BaseException) -> SurefindError | None:
    """Return the failure as an error the user can act on; None for an internal error."""
    if isinstance(failure, SurefindError):
        return failure
    exhausted = isinstance(failure, RuntimeError) and any(words in str(failure) for words in _OUT_OF_MEMORY)
    if isinstance(failure, MemoryError) or exhausted:
        return SurefindError(
            f"out of memory: {failure}".removesuffix(": "),
            fix="end other programs, or use smaller batches; surefind doctor shows the memory",
        )
    if isinstance(failure, OSError):
        place = "" if failure.filename is None else f"{os.fsdecode(failure.filename)}: "
        message = failure.strerror or str(failure) or type(failure).__name__
        fix = "allow more open files: ulimit -n 4096" if failure.errno == errno.EMFILE else None
        return SurefindError(f"{place}{message}", fix=fix)
    if isinstance(failure, ModuleNotFoundError) and not (failure.name or "").startswith("surefind"):
        from surefind.cli.doctor import extras, required

        package = (failure.name or "").partition(".")[0].replace("_", "-")
        extra = next((name for name in extras() if package in required(name)), None)
        wanted = package if extra is None else f"'surefind[{extra}]'"
        return SurefindError(f"{package} is not installed", fix=f"pip install {wanted}")
    return None


class StopRequest:
    """Flag set by Ctrl-C or SIGTERM: end after the current step. A second Ctrl-C ends at once."""

    def __init__(self) -> None:
        self.requested = False
        self._before = signal.signal(signal.SIGINT, self._request)
        signal.signal(signal.SIGTERM, self._request)

    def __call__(self) -> bool:
        return self.requested

    def _request(self, number: int, frame: Any) -> None:
        self.requested = True
        signal.signal(signal.SIGINT, self._before)
