"""The command `surefind`."""

import atexit
import signal
import sys


def main() -> None:
    """Run a command; a problem the user can act on is one message, not a traceback."""
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the work is done by then
    try:
        from io import TextIOWrapper

        from surefind.cli.errors import failures_told
        from surefind.cli.output import own_verbosity

        for stream in (
            sys.stdout,
            sys.stderr,
        ):  # a name that cannot be written is no reason to stop
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        with own_verbosity(), failures_told():
            from surefind.cli.commands import app  # here, so that Ctrl-C while it loads is answered

            app()
    except KeyboardInterrupt:  # before that is loaded which tells it, or while it is told
        print("interrupted", file=sys.stderr)
        sys.exit(130)
