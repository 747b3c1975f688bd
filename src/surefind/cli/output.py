"""Verbosity (--quiet, --debug), remarks, and progress on stderr."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Handler

    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

    from surefind.images.loader import Rejection

NARROWEST = 72  # terminal in which there is room for pictures beside the rest
SHOWN = 5  # lines of a list, such as rejected images
SECONDS_BETWEEN_LINES = 10.0  # of progress, where there is no terminal

Tell = Callable[[str, int, int], None]  # what is done, how much of it, out of how much


class _Verbosity:
    def __init__(self) -> None:
        self.quiet = self.debug = False
        self.log: Handler | None = None


_verbosity = _Verbosity()


def speak(*, quiet: bool = False, debug: bool = False) -> None:
    """Be quiet or show details from here on; what was asked for earlier stays."""
    if quiet:
        warnings.simplefilter("ignore")
    if debug and not _verbosity.debug:
        import logging

        # All that surefind logs; of other packages, which log every file they read, warnings.
        _verbosity.log = logging.StreamHandler(sys.stderr)
        _verbosity.log.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logging.getLogger().addHandler(_verbosity.log)
        logging.getLogger("surefind").setLevel(logging.DEBUG)
    _verbosity.quiet |= quiet
    _verbosity.debug |= debug


def is_quiet() -> bool:
    return _verbosity.quiet


def is_debugging() -> bool:
    return _verbosity.debug


@contextmanager
def own_verbosity() -> Iterator[None]:
    """Undo at the end what `speak` changed inside: a process may run several commands."""
    global _verbosity
    before, _verbosity = _verbosity, _Verbosity()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        if _verbosity.log is not None:
            import logging

            logging.getLogger().removeHandler(_verbosity.log)
            logging.getLogger("surefind").setLevel(logging.NOTSET)
        _verbosity = before


def remark(text: str) -> None:
    """Print a line on stderr that is neither the result nor an error, unless --quiet."""
    from surefind.text import printable

    if not _verbosity.quiet:
        print(printable(text), file=sys.stderr, flush=True)


def print_some(what: str, lines: Sequence[str]) -> None:
    """Print how many lines there are, and the first of them; nothing if there are none."""
    from surefind.text import printable

    if lines:
        print(f"{len(lines):,} {what}:")
        for line in lines[:SHOWN]:
            print(f"  {printable(line)}")
        if len(lines) > SHOWN:
            print(f"  and {len(lines) - SHOWN:,} more (all with --json)")


def rejected_as_json(rejected: "Sequence[Rejection]") -> list[dict[str, str]]:
    return [{"path": bad.path, "reason": bad.reason} for bad in rejected]


def bars(*columns: "str | ProgressColumn") -> "Progress":
    """Bars on stderr, seen only where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=is_quiet() or not console.is_terminal)


def line(of: "Progress", text: str) -> None:
    """Print a line in place of a bar, where stderr is no terminal."""
    if not of.console.is_terminal:
        remark(text)


@contextmanager
def stages() -> Iterator[Tell]:
    """Show one bar after the other; a line now and then where stderr is no terminal."""
    from rich.progress import TaskID

    tasks: dict[str, TaskID] = {}
    told = monotonic()
    with bars() as shown:

        def tell(what: str, done: int, total: int) -> None:
            nonlocal told
            if what not in tasks:
                for task in tasks.values():
                    shown.update(task, completed=shown.tasks[task].total)
                tasks[what] = shown.add_task(what, total=total)
                line(shown, what)
            elif monotonic() - told > SECONDS_BETWEEN_LINES:
                told = monotonic()
                line(shown, f"{what}: {done:,} of {total:,}")
            shown.update(tasks[what], completed=done)

        yield tell


def can_show(console: "Console") -> bool:
    """Whether pictures would be seen: a terminal that is wide, in true colour, with Unicode."""
    return (
        console.is_terminal
        and console.width >= NARROWEST
        and console.color_system == "truecolor"
        and not console.no_color
        and console.encoding.lower().startswith("utf")
    )
