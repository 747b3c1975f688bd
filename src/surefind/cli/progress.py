"""How far a long job is: bars on a terminal, a line now and then elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[str, int, int], None]  # what is done, how much of it, out of how much


@contextmanager
def stages() -> Iterator[Tell]:
    """One bar after the other, on stderr."""
    from rich.console import Console
    from rich.progress import Progress, TaskID

    console = Console(stderr=True)
    tasks: dict[str, TaskID] = {}
    with Progress(console=console, disable=not console.is_terminal) as bars:

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
                if not console.is_terminal:
                    print(what, file=sys.stderr, flush=True)
            for earlier, task in tasks.items():
                if earlier != what:
                    bars.update(task, completed=bars.tasks[task].total)
            bars.update(tasks[what], completed=done)

        yield tell
        for task in tasks.values():
            bars.update(task, completed=bars.tasks[task].total)
