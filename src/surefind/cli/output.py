"""Verbosity (--quiet, --debug), notes, and progress on stderr."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Handler

    from rich.progress import Progress, ProgressColumn

    from surefind.images.loader import Rejection

SHOWN = 5  # lines of a list, such as rejected images
SECONDS_BETWEEN_LINES = 10.0  # of progress, where stderr is not a terminal

Progressed = Callable[..., None]  # stage, done, total, and facts where they are known


class _Verbosity:
    quiet = debug = False
    log: "Handler | None" = None


_verbosity = _Verbosity()


def set_verbosity(*, quiet: bool = False, debug: bool = False) -> None:
    """Switch --quiet or --debug on; False leaves it as it is."""
    if quiet:
        warnings.simplefilter("ignore")
    if debug and not _verbosity.debug:
        import logging

        _verbosity.log = logging.StreamHandler(sys.stderr)
        _verbosity.log.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logging.getLogger().addHandler(_verbosity.log)
        logging.getLogger("surefind").setLevel(logging.DEBUG)  # other packages: warnings
    _verbosity.quiet |= quiet
    _verbosity.debug |= debug


def is_quiet() -> bool:
    return _verbosity.quiet


def is_debugging() -> bool:
    return _verbosity.debug


@contextmanager
def scoped_verbosity() -> Iterator[None]:
    """Undo `set_verbosity` at the end: a process may run several commands."""
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


def note(text: str) -> None:
    """Print a line on stderr, unless --quiet."""
    from surefind.text import printable

    if not _verbosity.quiet:
        print(printable(text), file=sys.stderr, flush=True)


def print_some(what: str, lines: Sequence[str]) -> None:
    """Print the number of lines and the first of them; nothing if there are none."""
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
    """Return progress bars on stderr, shown only in a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=is_quiet() or not console.is_terminal)


def line(of: "Progress", text: str) -> None:
    """Print a line instead of a bar, where stderr is not a terminal."""
    if not of.console.is_terminal:
        note(text)


@contextmanager
def stages() -> Iterator[Progressed]:
    """Show a bar per stage; without a terminal, a line per stage and every ten seconds."""
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID

    tasks: dict[str, TaskID] = {}
    began = printed = last = monotonic()
    columns = "{task.description}", BarColumn(), MofNCompleteColumn(), "{task.fields[facts]}"
    with bars(*columns) as shown:

        def progress(stage: str, done: int, total: int, facts: str = "") -> None:
            nonlocal began, printed, last
            now = monotonic()
            if stage not in tasks:
                for task in tasks.values():
                    shown.update(task, completed=shown.tasks[task].total, facts="")
                tasks[stage] = shown.add_task(stage, total=total, facts="")
                began, printed = last, now  # it began when the one before ended
                line(shown, stage)
            if 0 < done < total:  # the time left at the mean speed so far, however slow
                left = f"{timedelta(seconds=round((now - began) / done * (total - done)))} left"
                facts = f"{left}, {facts}" if facts else left
            if now - printed > SECONDS_BETWEEN_LINES:
                printed = now
                line(shown, f"{stage}: {done:,} of {total:,}, {facts}".removesuffix(", "))
            shown.update(tasks[stage], completed=done, facts=facts)
            last = now

        yield progress
