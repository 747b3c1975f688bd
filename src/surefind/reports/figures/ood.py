"""Do foreign queries look uncertain? Histograms, in-catalogue and foreign queries side by side."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from surefind.reports.figures.missing import NothingToDraw
from surefind.reports.figures.palette import OURS, WRONG
from surefind.reports.figures.panels import (
    TEXT,
    blank,
    caption,
    interval,
    lower_key,
    panels,
    shortened,
    spans_decades,
)
from surefind.reports.figures.report import Report, grouped
from surefind.reports.figures.signals import pair_signal
from surefind.reports.names import signal_name
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult

_COLUMNS, _BINS = 3, 40


def draw_ood(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """One panel per signal; the further apart the two, the better."""
    _check(queries)
    signals = list(queries.signals(ranking))
    rows = -(-len(signals) // _COLUMNS)
    title = f"In-catalogue and foreign queries ({shortened(result.about.foreign, 60)})"
    figure, axes = panels(rows, _COLUMNS, height=0.8 + 1.9 * rows, title=title)
    blank(axes, len(signals))
    for axis, signal in zip(axes.flat, signals, strict=False):
        _draw_panel(axis, result, queries, signal, ranking=ranking, title=signal_name(signal))
    _finish(figure, axes)
    return figure


def compare_ood(reports: Sequence[Report], *, ranking: str = "means") -> Figure:
    """cov[Δ] of a query and its top hit: one panel per report, a row for each group of them."""
    groups = grouped(reports)
    columns = min(_COLUMNS, max(map(len, groups.values())))
    rows = [
        (group, some[start : start + columns])
        for group, some in groups.items()
        for start in range(0, len(some), columns)
    ]
    title = "In-catalogue and foreign queries by cov[Δ] of the query and its top hit"
    figure, axes = panels(len(rows), columns, height=0.8 + 1.9 * len(rows), title=title)
    for line, (group, some) in zip(axes, rows, strict=True):
        blank(line, len(some))
        for axis, (label, result, queries) in zip(line, some, strict=False):
            _check(queries)
            signal = pair_signal(queries, ranking)
            name = f"{group}, {label}" if group else label
            if signal != "pair_var":
                name += f": {signal_name(signal)}"
            _draw_panel(axis, result, queries, signal, ranking=ranking, title=name)
    _finish(figure, axes)
    return figure


def _check(queries: QueryTable) -> None:
    if not queries["foreign"].any():
        raise NothingToDraw(
            "the report has no foreign queries", fix="evaluate again with --ood DATA"
        )


def _draw_panel(
    axis: Axes, result: EvalResult, queries: QueryTable, signal: str, *, ranking: str, title: str
) -> None:
    values, foreign = queries.signals(ranking)[signal], queries["foreign"]
    _draw_pair(axis, values[~foreign & (queries["n_matches"] > 0)], values[foreign])
    found = result.rankings[ranking].signals[signal].ood
    caption(axis, title + (f"\nAUROC {interval(found.auroc)}" if found else ""))


def _finish(figure: Figure, axes: NDArray[np.object_]) -> None:
    for axis in axes[:, 0]:
        axis.set_ylabel("share of queries", fontsize=TEXT)
    lower_key(figure, *axes[0, 0].get_legend_handles_labels())


def _draw_pair(axis: Axes, own: NDArray[np.float64], foreign: NDArray[np.float64]) -> None:
    both = np.concatenate([own, foreign])
    both = both[np.isfinite(both)]
    if spans_decades(both):
        axis.set_xscale("log")
        edges = np.geomspace(both.min(), both.max(), _BINS + 1)
    else:
        edges = np.histogram_bin_edges(both, _BINS)
    groups = ((own, OURS, "in catalogue", ""), (foreign, WRONG, "foreign", "////"))
    for values, colour, name, hatch in groups:
        axis.hist(
            values,
            bins=edges.tolist(),
            weights=np.full(len(values), 1 / len(values)),
            histtype="stepfilled",
            facecolor=colour + "55",
            edgecolor=colour,
            hatch=hatch,
            label=name,
        )
