"""How each uncertainty looks, the same in all figures, and which one stands for the model."""

from collections.abc import Iterable
from typing import NamedTuple

from surefind.reports.figures.palette import SERIES
from surefind.reports.names import SIGNALS, is_learned
from surefind.reports.queries import QueryTable
from surefind.reports.signals import COSINE


class Style(NamedTuple):
    """Of a curve."""

    color: str
    linestyle: str


def main_signal(queries: QueryTable, ranking: str) -> str:
    """The model's own variance, or the nearest distance where it has none."""
    return "query_var" if f"{ranking}.signal.query_var" in queries else "nearest_distance"


def pair_signal(queries: QueryTable, ranking: str) -> str:
    """cov[Δ] of a query and its top hit, or their distance where the model has no variance."""
    return "pair_var" if f"{ranking}.signal.pair_var" in queries else "nearest_distance"


def signal_styles(names: Iterable[str]) -> dict[str, Style]:
    """Learned ones are solid, training-free ones dashed; a colour stays with its signal.

    The cosine is dotted: of unit vectors it is in the order of the distance, which shows through.

    >>> signal_styles(["query_var", "ratio_1_2"])["ratio_1_2"].linestyle
    '--'
    """
    names = list(names)
    order = list(dict.fromkeys([*SIGNALS, *names]))
    return {name: Style(SERIES[order.index(name) % len(SERIES)], _dash(name)) for name in names}


def _dash(name: str) -> str:
    if is_learned(name):
        return "-"
    return ":" if name == COSINE else "--"
