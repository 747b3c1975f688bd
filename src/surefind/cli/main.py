"""The command `surefind`."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn


class _CtrlC(BaseException):
    """Not a KeyboardInterrupt, which typer would answer itself."""


def main() -> None:
    """Run a command; a problem the user can act on is one message, not a traceback.

    Ctrl-C ends it with one line and exit code 130 from the first statement on: the first one is
    raised, so that a command cleans up; the second ends the process at once. When the work is done,
    it is ignored, since Python cannot be interrupted cleanly in its last moments.
    """
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
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as in the background
            signal.signal(signal.SIGINT, interrupt)
        from surefind.cli.errors import tell
        from surefind.cli.output import is_debugging, own_verbosity

        with own_verbosity():
            try:
                _run()
                code = 0
            except BaseException as end:  # noqa: BLE001  # the last place to tell it
                if not pressed:
                    code = tell(end)
                else:  # a library may have made another error of it
                    if is_debugging():
                        sys.excepthook(type(end), end, end.__traceback__)
                    _leave()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except _CtrlC:
        _leave()
    sys.exit(code)


def _run() -> None:
    from io import TextIOWrapper

    for stream in (sys.stdout, sys.stderr):  # a name that cannot be written is no reason to stop
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        from surefind.cli.commands import app  # here, so that Ctrl-C while it loads is answered

        app()
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a closed pipe can still be answered


def _leave() -> NoReturn:
    """End at once: every file is written such that nothing breaks."""
    os.write(2, b"interrupted; nothing is broken: run the same command again\n")
    os._exit(130)
