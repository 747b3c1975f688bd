"""Does uncertainty rise with corruption? One panel per kind, one curve per signal."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from surefind.reports.figures.missing import NothingToDraw
from surefind.reports.figures.palette import GREY
from surefind.reports.figures.panels import (
    SMALL,
    TEXT,
    blank,
    caption,
    lower_key,
    panels,
    spans_decades,
)
from surefind.reports.figures.signals import signal_styles
from surefind.reports.names import signal_name
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult, Rung

_COLUMNS = 2


def draw_ladder(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """Median uncertainty over the level, the clean images being 1; R@1 in grey."""
    ladder = result.ladder
    if ladder is None:
        raise NothingToDraw(
            "the report has no corrupted queries", fix="evaluate again with --ladder 200"
        )
    kinds = list(dict.fromkeys(rung.kind for rung in ladder.rungs))
    rows = -(-len(kinds) // _COLUMNS)
    figure, axes = panels(
        rows,
        _COLUMNS,
        height=0.9 + 2.1 * rows,
        title=f"Corrupted queries: {ladder.queries} of {len(queries.own())}",
    )
    blank(axes, len(kinds))
    names = list(result.rankings[ranking].signals)
    for number, (axis, kind) in enumerate(zip(axes.flat, kinds, strict=False)):
        rungs = sorted((r for r in ladder.rungs if r.kind == kind), key=lambda rung: rung.level)
        _draw_signals(axis, rungs, names)
        recall = _draw_recall(axis, rungs)
        caption(axis, kind, x="level" if number >= len(kinds) - _COLUMNS else "")
        if number % _COLUMNS == 0:
            axis.set_ylabel("uncertainty, clean = 1", fontsize=TEXT)
        if number % _COLUMNS == _COLUMNS - 1 or number == len(kinds) - 1:
            recall.set_ylabel("R@1", fontsize=TEXT, color=GREY)
    lines = [*axes[0, 0].get_lines(), *recall.get_lines()]
    lower_key(figure, lines, [str(line.get_label()) for line in lines])
    return figure


def _draw_signals(axis: Axes, rungs: Sequence[Rung], names: Sequence[str]) -> None:
    levels = [rung.level for rung in rungs]
    shown = []
    for name, style in signal_styles(names).items():
        medians = np.array([rung.signals.get(name, np.nan) for rung in rungs])
        relative = medians / medians[0] if medians[0] else np.full_like(medians, np.nan)
        shown.append(relative)
        label = signal_name(name)
        axis.plot(levels, relative, marker="o", markersize=3, label=label, **style._asdict())
    if spans_decades(np.nan_to_num(np.concatenate(shown), nan=1.0)):
        axis.set_yscale("log")
    axis.set_xticks(levels)


def _draw_recall(axis: Axes, rungs: Sequence[Rung]) -> Axes:
    twin = axis.twinx()
    levels, recalls = [rung.level for rung in rungs], [rung.recall for rung in rungs]
    twin.plot(levels, recalls, ":", color=GREY, marker="s", markersize=3, label="R@1 (right)")
    twin.set_ylim(0, 1)
    twin.tick_params(labelsize=SMALL, color=GREY, labelcolor=GREY)
    twin.spines[["top", "right", "left", "bottom"]].set_visible(False)
    return twin
