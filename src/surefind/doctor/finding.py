"""One thing that was looked at."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from surefind.errors import SurefindError

State = Literal["fine", "absent", "poor", "broken"]


class Finding(NamedTuple):
    """What was looked at, how it is, what was seen, and what to do about it.

    `absent` is something that is not needed, `poor` something that will be in the way; only
    `broken` is a reason to stop.
    """

    what: str
    state: State
    seen: str
    fix: str = ""

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


def fine(what: str, seen: str) -> Finding:
    return Finding(what, "fine", seen)


def tried(what: str, look: Callable[[], Finding], *, fix: str) -> Finding:
    """Whatever is wrong with a package is the finding, not an end of the looking."""
    try:
        return look()
    except SurefindError as error:
        return Finding(what, "broken", error.problem, error.fix or "")
    except Exception as error:  # noqa: BLE001
        said = next(iter(str(error).splitlines()), "")
        return Finding(what, "broken", f"{type(error).__name__}: {said}".removesuffix(": "), fix)
