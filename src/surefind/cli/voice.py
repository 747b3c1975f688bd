"""How much a command says beside its result: nothing if --quiet, everything if --debug."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Handler

SHOWN = 5  # lines of a list, such as rejected images


class _Voice:
    def __init__(self) -> None:
        self.quiet = self.debug = False
        self.log: Handler | None = None


_voice = _Voice()


def speak(*, quiet: bool = False, debug: bool = False) -> None:
    """From here on. What was asked before the name of a command holds for the command too."""
    if quiet and not _voice.quiet:
        warnings.simplefilter("ignore")
    if debug and not _voice.debug:
        _voice.log = _log_everything()
    _voice.quiet |= quiet
    _voice.debug |= debug


def is_quiet() -> bool:
    """Whether progress and remarks are unwanted."""
    return _voice.quiet


def is_debugging() -> bool:
    """Whether an error is to be told with its traceback."""
    return _voice.debug


def remark(text: str) -> None:
    """Something that is neither the result nor an error: a line on stderr, unless --quiet."""
    from surefind.search.printable import printable

    if not _voice.quiet:
        print(printable(text), file=sys.stderr, flush=True)


def print_some(what: str, lines: Sequence[str]) -> None:
    """Print how many lines there are, and the first of them; nothing if there are none."""
    from surefind.search.printable import printable

    if lines:
        print(f"{len(lines):,} {what}:")
        for line in lines[:SHOWN]:
            print(f"  {printable(line)}")
        if len(lines) > SHOWN:
            print(f"  and {len(lines) - SHOWN:,} more (all with --json)")


@contextmanager
def own_voice() -> Iterator[None]:
    """What is asked for inside ends with the block: a process may run several commands."""
    global _voice
    before, _voice = _voice, _Voice()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        if _voice.log is not None:
            _end_log(_voice.log)
        _voice = before


def _log_everything() -> "Handler":
    """All that surefind logs; of other packages, which log every file they read, the news."""
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("surefind").setLevel(logging.DEBUG)
    return handler


def _end_log(handler: "Handler") -> None:
    import logging

    logging.getLogger().removeHandler(handler)
    logging.getLogger("surefind").setLevel(logging.NOTSET)
