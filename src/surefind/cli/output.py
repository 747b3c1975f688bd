"""Verbosity (--quiet, --debug), remarks, and progress on stderr."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Handler

    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

NARROWEST = 72  # terminal in which there is room for pictures beside the rest
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
        import logging

        # All that surefind logs; of other packages, which log every file they read, the news.
        _voice.log = logging.StreamHandler(sys.stderr)
        _voice.log.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logging.getLogger().addHandler(_voice.log)
        logging.getLogger("surefind").setLevel(logging.DEBUG)
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
            import logging

            logging.getLogger().removeHandler(_voice.log)
            logging.getLogger("surefind").setLevel(logging.NOTSET)
        _voice = before


Tell = Callable[[str, int, int], None]  # what is done, how much of it, out of how much


def bars(*columns: "str | ProgressColumn") -> "Progress":
    """Bars on stderr, seen only where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=is_quiet() or not console.is_terminal)


def line(of: "Progress", text: str) -> None:
    """In place of a bar, where stderr is no terminal."""
    if not of.console.is_terminal:
        remark(text)


@contextmanager
def stages() -> Iterator[Tell]:
    """One bar after the other, on stderr."""
    from rich.progress import TaskID

    tasks: dict[str, TaskID] = {}
    with bars() as shown:

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total)
                line(shown, what)
            for earlier, task in tasks.items():
                if earlier != what:
                    shown.update(task, completed=shown.tasks[task].total)
            shown.update(tasks[what], completed=done)

        yield tell
        for task in tasks.values():
            shown.update(task, completed=shown.tasks[task].total)


def can_show(console: "Console") -> bool:
    """Whether pictures would be seen: a terminal that is wide, in true colour, with Unicode."""
    return (
        console.is_terminal
        and console.width >= NARROWEST
        and console.color_system == "truecolor"
        and not console.no_color
        and console.encoding.lower().startswith("utf")
    )
