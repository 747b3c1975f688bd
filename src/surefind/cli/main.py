"""Entry point of the command `surefind`, with Ctrl-C handled from the first statement on."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn


class _CtrlC(BaseException):
    """Not a KeyboardInterrupt, which typer would catch."""


def main() -> None:
    """Run a command and exit; an error is one message, not a traceback.

    The first Ctrl-C is raised, so that the command cleans up, and ends in one line and exit code
    130; the second ends the process at once. It is ignored once the work is done, because Python
    cannot be interrupted cleanly while it shuts down.
    """
    # Waiting threads of torch, faiss and numpy sleep: to spin, beside other programs, costs more than the work.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")  # 2^10 cycles
    pressed = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            _leave()
        pressed = True
        sys.unraisablehook = lambda _: _leave()  # raised in a finalizer, where it would be lost
        threading.excepthook = lambda _: None  # threads fail once the main one cleans up
        raise _CtrlC

    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # ignored in the background
            signal.signal(signal.SIGINT, interrupt)
        from surefind.cli.errors import report_error
        from surefind.cli.output import is_debugging, scoped_verbosity

        with scoped_verbosity():
            try:
                _run()
                code = 0
            except BaseException as end:  # noqa: BLE001  # the outermost handler
                if not pressed:
                    code = report_error(end)
                else:  # a library may have replaced the exception
                    if is_debugging():
                        sys.excepthook(type(end), end, end.__traceback__)
                    _leave()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except _CtrlC:
        _leave()
    sys.exit(code)


def _run() -> None:
    from io import TextIOWrapper

    for stream in (sys.stdout, sys.stderr):  # file names may not be encodable
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        from surefind.cli.commands import app  # here, so that Ctrl-C is handled while it loads

        app()
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a closed pipe can still be reported


def _leave() -> NoReturn:
    """End the process without cleanup; files are written atomically, so none is damaged."""
    os.write(2, b"interrupted; nothing is broken: run the same command again\n")
    os._exit(130)
