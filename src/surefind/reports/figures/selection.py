"""Which queries are worth looking at; row numbers into the whole table, the most telling first."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from surefind.reports.figures.signals import main_signal, pair_signal
from surefind.reports.queries import QueryTable

Rows = NDArray[np.int64]
COUNT = 6


def surest(
    queries: QueryTable, *, ranking: str = "means", signal: str = "", count: int = COUNT
) -> Rows:
    """The scored queries with the lowest uncertainty."""
    rows, doubt = _scored(queries, ranking, signal)
    return rows[np.argsort(doubt, kind="stable")[:count]]


def least_sure(
    queries: QueryTable, *, ranking: str = "means", signal: str = "", count: int = COUNT
) -> Rows:
    """The scored queries with the highest uncertainty."""
    rows, doubt = _scored(queries, ranking, signal)
    return rows[np.argsort(-doubt, kind="stable")[:count]]


def confident_but_wrong(
    queries: QueryTable, *, ranking: str = "means", signal: str = "", count: int = COUNT
) -> Rows:
    """The surest of the scored queries whose top hit is wrong."""
    rows, doubt = _scored(queries, ranking, signal)
    wrong: NDArray[np.bool_] = ~queries[f"{ranking}.match_1"][rows]
    rows, doubt = rows[wrong], doubt[wrong]
    return rows[np.argsort(doubt, kind="stable")[:count]]


def right_pairs(queries: QueryTable, *, ranking: str = "means") -> Rows:
    """All scored queries whose top hit is right, by cov[Δ] to it, the surest first."""
    rows, doubt = _scored(queries, ranking, pair_signal(queries, ranking))
    right: NDArray[np.bool_] = queries[f"{ranking}.match_1"][rows]
    rows, doubt = rows[right], doubt[right]
    return rows[np.argsort(doubt, kind="stable")]


def least_sure_of_all(queries: QueryTable, *, ranking: str = "means", count: int = COUNT) -> Rows:
    """Of scored and foreign queries together, those with the highest cov[Δ] to their top hit."""
    rows = np.flatnonzero(queries["foreign"] | (queries["n_matches"] > 0))
    doubt = queries.signals(ranking)[pair_signal(queries, ranking)][rows]
    return rows[np.argsort(-doubt, kind="stable")[:count]]


SELECTIONS: dict[str, Callable[..., Rows]] = {
    "surest": surest,
    "least-sure": least_sure,
    "confident-but-wrong": confident_but_wrong,
}


def _scored(queries: QueryTable, ranking: str, signal: str) -> tuple[Rows, NDArray[np.float64]]:
    rows = np.flatnonzero(~queries["foreign"] & (queries["n_matches"] > 0))
    name = signal or main_signal(queries, ranking)
    return rows, queries.signals(ranking)[name][rows]
