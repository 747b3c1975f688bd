"""How far a long job is: bars on a terminal, a line now and then elsewhere, nothing if --quiet."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surefind.cli.voice import is_quiet, remark

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

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
