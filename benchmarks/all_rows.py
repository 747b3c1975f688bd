"""A line of the table, and whether a promise is kept."""

from collections.abc import Mapping
from typing import Any, NamedTuple

Result = Mapping[str, Any]  # what a benchmark has written


class Row(NamedTuple):
    """One figure beside what was promised of it."""

    what: str
    figure: str
    target: str = ""  # none: nothing was promised
    met: bool | None = None


def at_least(what: str, value: float, least: float, *, shown: str) -> Row:
    """Judged by the value itself, not by its shown digits.

    >>> at_least("queries/s of bare faiss", 0.896, 0.9, shown="0.90 x").met
    False
    """
    return Row(what, shown, f"≥ {least:g}", value >= least)


def at_most(what: str, value: float, most: float, *, shown: str, unit: str = "") -> Row:
    return Row(what, shown, f"≤ {most:g}{unit}", value <= most)


def none_of(what: str, count: int) -> Row:
    return Row(what, f"{count:,}", "0", count == 0)
