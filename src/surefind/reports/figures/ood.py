"""Do foreign queries look uncertain? Each signal's histogram, own beside foreign queries."""

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
from surefind.reports.names import signal_name
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult

_COLUMNS, _BINS = 3, 40


def draw_ood(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """One panel per signal; the further apart the two, the better."""
    if not queries["foreign"].any():
        raise NothingToDraw(
            "the report has no foreign queries", fix="evaluate again with --ood DATA"
        )
    signals = queries.signals(ranking)
    own = ~queries["foreign"] & (queries["n_matches"] > 0)
    rows = -(-len(signals) // _COLUMNS)
    figure, axes = panels(
        rows,
        _COLUMNS,
        height=0.8 + 1.9 * rows,
        title=f"Own queries beside those of {shortened(result.about.foreign, 60)}",
    )
    blank(axes, len(signals))
    for axis, (name, values) in zip(axes.flat, signals.items(), strict=False):
        _draw_pair(axis, values[own], values[queries["foreign"]])
        found = result.rankings[ranking].signals[name].ood
        caption(axis, signal_name(name) + (f"\nAUROC {interval(found.auroc)}" if found else ""))
    for axis in axes[:, 0]:
        axis.set_ylabel("share of queries", fontsize=TEXT)
    lower_key(figure, *axes[0, 0].get_legend_handles_labels())
    return figure


def _draw_pair(axis: Axes, own: NDArray[np.float64], foreign: NDArray[np.float64]) -> None:
    both = np.concatenate([own, foreign])
    both = both[np.isfinite(both)]
    if spans_decades(both):
        axis.set_xscale("log")
        edges = np.geomspace(both.min(), both.max(), _BINS + 1)
    else:
        edges = np.histogram_bin_edges(both, _BINS)
    groups = ((own, OURS, "own", ""), (foreign, WRONG, "foreign", "////"))
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
