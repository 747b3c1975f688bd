"""Figures of an evaluation: calibration, risk and coverage, foreign queries, corruption."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from surefind.metrics import (
    average_precision_at_k,
    expected_calibration_error,
    reliability_bins,
    risk_coverage,
)
from surefind.metrics.calibration import ReliabilityBins
from surefind.reports.figures import style
from surefind.reports.result import SHOWN, EvalResult, QueryTable, Report
from surefind.reports.signals import ranking_name, signal_name

_K = 5
_LINE: dict[str, Any] = {"color": style.OURS, "marker": "o", "markersize": 4, "clip_on": False}
_RANK_AXES = {"x": "confidence: rank of the uncertainty", "y": "mean average precision"}
_PROBABILITY_AXES = {"x": "probability that the top hit is right", "y": "share of right top hits"}
_OOD_COLUMNS, _BINS = 3, 40
_LADDER_COLUMNS = 2


def draw_calibration(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """Left: mAP over the rank of the uncertainty. Right: correct top hits over the probability."""
    figure, ((left, right),) = style.panels(1, 2, height=4.7)
    own = queries.own()
    rank = _rank_curve(own, ranking)
    _draw_rank(left, rank, _LINE, band=f"mAP@1 to mAP@{SHOWN}", line=f"mAP@{_K}")
    missing = "" if rank.signal == "query_var" else "; the model has no variance"
    title = [f"By {signal_name(rank.signal)}{missing}"]
    for definition in ("equal_mass", "equal_width"):
        told = result.rankings[ranking].ece.get(definition, {}).get(str(_K))
        value = style.interval(told) if told else f"{rank.error(definition):.3f}"
        title.append(f"ECE@{_K} {definition.replace('_', ' ')} {value}")
    style.caption(left, "\n".join(title), **_RANK_AXES)
    best = _best_signal(result, own, ranking)
    error = result.rankings[ranking].signals[best].ece
    title = [f"Probability from {signal_name(best)}"]
    title.append(f"ECE {style.interval(error) if error else 'unknown'}")
    style.caption(right, "\n".join(title), **_PROBABILITY_AXES)
    if bins := _probability_bins(own, ranking, best):
        right.plot(bins.confidence, bins.outcome, label="top hit", **_LINE)
    _draw_diagonal((left, right))
    shown = {
        name: handle
        for axis in (left, right)
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    style.lower_key(figure, list(shown.values()), list(shown))
    return figure


def compare_calibration(reports: Sequence[Report], *, ranking: str = "means") -> Figure:
    """The curves of several reports in the same panels, a row of panels for each group of them."""
    groups = style.grouped(reports)
    styles = style.series_styles(report.label for some in groups.values() for report in some)
    entries = 2 + max(map(len, groups.values()))  # of the longest legend, its title included
    figure, axes = style.panels(len(groups), 2, height=(4.1 + 0.19 * entries) * len(groups))
    for (left, right), (group, some) in zip(axes, groups.items(), strict=True):
        for label, result, queries in some:
            own, look = queries.own(), styles[label] | {"markersize": 4, "clip_on": False}
            rank = _rank_curve(own, ranking)
            name = label if rank.signal == "query_var" else f"{label}, by distance"
            _draw_rank(left, rank, look, line=f"{name} {rank.error('equal_mass'):.3f}")
            best = _best_signal(result, own, ranking)
            if bins := _probability_bins(own, ranking, best):
                error = result.rankings[ranking].signals[best].ece
                value = f" {error.value:.3f}" if error else ""
                line = f"{label}, {signal_name(best)}{value}"
                right.plot(bins.confidence, bins.outcome, label=line, **look)
        before = f"{group}: " if group else ""
        style.caption(left, f"{before}mAP@{_K}, shaded mAP@1 to mAP@{SHOWN}", **_RANK_AXES)
        style.caption(right, f"{before}probability by the best signal", **_PROBABILITY_AXES)
        _draw_diagonal((left, right))
        below = {"loc": "upper left", "bbox_to_anchor": (0, -0.13), "borderaxespad": 0}
        style.key(left, title=f"ECE@{_K}, equal mass", **below)
        style.key(right, title="ECE", **below)
    return figure


class _RankCurve(NamedTuple):
    """Average precision by the rank of an uncertainty."""

    signal: str
    values: Tensor  # of the uncertainty
    precision: list[Tensor]  # AP@1 to AP@10 of each query
    confidence: Tensor  # 0.95 for the surest tenth, 0.05 for the least sure
    outcome: Tensor  # (10, bins): mAP@1 to mAP@10 of each bin

    def error(self, definition: str) -> float:
        """ECE@5."""
        precision = self.precision[_K - 1]
        return float(expected_calibration_error(self.values, precision, definition=definition))


def _rank_curve(own: QueryTable, ranking: str) -> _RankCurve:
    signal = style.main_signal(own, ranking)
    own = own.select(np.isfinite(own.signals(ranking)[signal]))
    values = torch.from_numpy(own.signals(ranking)[signal])
    hits = torch.from_numpy(own.hits(ranking))
    matches = torch.from_numpy(own["n_matches"])
    precision = [average_precision_at_k(hits, matches, k) for k in range(1, SHOWN + 1)]
    found = [reliability_bins(values, ap, definition="equal_mass") for ap in precision]
    outcome = torch.stack([bins.outcome for bins in found])
    return _RankCurve(signal, values, precision, found[0].confidence, outcome)


def _draw_rank(
    axis: Axes, curve: _RankCurve, look: Mapping[str, Any], *, line: str, band: str | None = None
) -> None:
    low, high = curve.outcome.min(0).values, curve.outcome.max(0).values
    shade = {"color": look["color"], "alpha": 0.15, "linewidth": 0, "label": band}
    axis.fill_between(curve.confidence, low, high, **shade)
    axis.plot(curve.confidence, curve.outcome[_K - 1], label=line, **look)


def _best_signal(result: EvalResult, own: QueryTable, ranking: str) -> str:
    """The one that tells wrong top hits best."""
    signals = result.rankings[ranking].signals
    ranks = {name: found.auroc.value for name, found in signals.items() if found.auroc}
    return max(ranks, key=lambda name: ranks[name], default=style.main_signal(own, ranking))


def _probability_bins(own: QueryTable, ranking: str, signal: str) -> ReliabilityBins | None:
    """Right top hits by the probability that the signal was turned into."""
    column = f"{ranking}.probability.{signal}"
    if column not in own or not (known := np.isfinite(own[column])).any():
        return None
    right = torch.from_numpy(own[f"{ranking}.match_1"][known]).double()
    return reliability_bins(torch.from_numpy(own[column][known]), right, definition="probability")


def _draw_diagonal(axes: Iterable[Axes]) -> None:
    for axis in axes:
        axis.plot(
            [0, 1], [0, 1], "--", color=style.GREY, linewidth=0.9, label="perfectly calibrated"
        )
        axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")


def draw_risk_coverage(
    result: EvalResult, queries: QueryTable, *, ranking: str = "means"
) -> Figure:
    """One curve per signal, between the best possible order (oracle) and a random one."""
    own = queries.own()
    signals, right = own.signals(ranking), torch.from_numpy(own[f"{ranking}.match_1"])
    error = 1 - float(right.double().mean())
    figure, ((axis,),) = style.panels(1, 1, height=4.2)
    top = error
    for name, colours in style.signal_styles(signals).items():
        known = np.isfinite(signals[name])
        curve = risk_coverage(torch.from_numpy(-signals[name][known]), right[known])
        area = result.rankings[ranking].signals[name].aurc
        label = f"{signal_name(name)}\nAURC {area.value:.3f}"
        axis.plot(curve.coverage, curve.risk, label=label, **colours)
        top = max(top, float(curve.risk[curve.coverage >= style.NOISE].max()))
    best = risk_coverage(right.double(), right)
    label = f"oracle\nAURC {best.area:.3f}"
    axis.plot(best.coverage, best.risk, color=style.INK, linewidth=0.8, label=label)
    axis.axhline(
        error, color=style.GREY, linestyle=":", linewidth=1, label=f"random\nAURC {error:.3f}"
    )
    style.caption(
        axis,
        f"Errors among the surest queries; ranked by {ranking_name(ranking)}",
        x="share of queries answered, the surest first",
        y="share of wrong top hits",
    )
    axis.set(xlim=(0, 1), ylim=(0, 1.1 * top or 1))
    figure.legend(fontsize=style.SMALL, frameon=False, loc="outside right upper", labelspacing=0.8)
    return figure


def draw_ood(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """Histograms of in-catalogue and foreign queries, one panel per signal."""
    style.check_foreign(queries)
    signals = list(queries.signals(ranking))
    rows = -(-len(signals) // _OOD_COLUMNS)
    title = f"In-catalogue and foreign queries ({style.shortened(result.about.foreign, 60)})"
    figure, axes = style.panels(rows, _OOD_COLUMNS, height=0.8 + 1.9 * rows, title=title)
    for axis in axes.flat[len(signals) :]:
        axis.set_axis_off()
    for axis, signal in zip(axes.flat, signals, strict=False):
        _draw_histograms(axis, result, queries, signal, ranking=ranking, title=signal_name(signal))
    _finish_ood(figure, axes)
    return figure


def compare_ood(reports: Sequence[Report], *, ranking: str = "means") -> Figure:
    """cov[Δ] of a query and its top hit: one panel per report, a row for each group of them."""
    groups = style.grouped(reports)
    columns = min(_OOD_COLUMNS, max(map(len, groups.values())))
    rows = [
        (group, some[start : start + columns])
        for group, some in groups.items()
        for start in range(0, len(some), columns)
    ]
    title = "In-catalogue and foreign queries by cov[Δ] of the query and its top hit"
    figure, axes = style.panels(len(rows), columns, height=0.8 + 1.9 * len(rows), title=title)
    for line, (group, some) in zip(axes, rows, strict=True):
        for axis in line[len(some) :]:
            axis.set_axis_off()
        for axis, (label, result, queries) in zip(line, some, strict=False):
            style.check_foreign(queries)
            signal = style.main_signal(queries, ranking, "pair_var")
            name = f"{group}, {label}" if group else label
            if signal != "pair_var":
                name += f": {signal_name(signal)}"
            _draw_histograms(axis, result, queries, signal, ranking=ranking, title=name)
    _finish_ood(figure, axes)
    return figure


def _draw_histograms(
    axis: Axes, result: EvalResult, queries: QueryTable, signal: str, *, ranking: str, title: str
) -> None:
    values, foreign = queries.signals(ranking)[signal], queries["foreign"]
    own = values[~foreign & (queries["n_matches"] > 0)]
    both = np.concatenate([own, values[foreign]])
    both = both[np.isfinite(both)]
    if style.spans_decades(both):
        axis.set_xscale("log")
        edges = np.geomspace(both.min(), both.max(), _BINS + 1)
    else:
        edges = np.histogram_bin_edges(both, _BINS)
    groups = (
        (own, style.OURS, "in catalogue", ""),
        (values[foreign], style.WRONG, "foreign", "////"),
    )
    for some, colour, name, hatch in groups:
        axis.hist(
            some,
            bins=edges.tolist(),
            weights=np.full(len(some), 1 / len(some)),
            histtype="stepfilled",
            facecolor=colour + "55",
            edgecolor=colour,
            hatch=hatch,
            label=name,
        )
    found = result.rankings[ranking].signals[signal].ood
    style.caption(axis, title + (f"\nAUROC {style.interval(found.auroc)}" if found else ""))


def _finish_ood(figure: Figure, axes: NDArray[np.object_]) -> None:
    for axis in axes[:, 0]:
        axis.set_ylabel("share of queries", fontsize=style.TEXT)
    style.lower_key(figure, *axes[0, 0].get_legend_handles_labels())


def draw_ladder(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """Median uncertainty over the level of corruption, the clean images being 1; R@1 in grey."""
    ladder = result.ladder
    if ladder is None:
        fix = "evaluate again with --ladder 200"
        raise style.NothingToDraw("the report has no corrupted queries", fix=fix)
    kinds = list(dict.fromkeys(rung.kind for rung in ladder.rungs))
    rows = -(-len(kinds) // _LADDER_COLUMNS)
    title = f"Corrupted queries: {ladder.queries} of {len(queries.own())}"
    figure, axes = style.panels(rows, _LADDER_COLUMNS, height=0.9 + 2.1 * rows, title=title)
    for axis in axes.flat[len(kinds) :]:
        axis.set_axis_off()
    names = list(result.rankings[ranking].signals)
    for number, (axis, kind) in enumerate(zip(axes.flat, kinds, strict=False)):
        rungs = sorted((r for r in ladder.rungs if r.kind == kind), key=lambda rung: rung.level)
        levels, shown = [rung.level for rung in rungs], []
        for name, colours in style.signal_styles(names).items():
            medians = np.array([rung.signals.get(name, np.nan) for rung in rungs])
            relative = medians / medians[0] if medians[0] else np.full_like(medians, np.nan)
            shown.append(relative)
            line = colours | {"marker": "o", "markersize": 3}
            axis.plot(levels, relative, label=signal_name(name), **line)
        if style.spans_decades(np.nan_to_num(np.concatenate(shown), nan=1.0)):
            axis.set_yscale("log")
        axis.set_xticks(levels)
        twin, look = axis.twinx(), {"color": style.GREY, "marker": "s", "markersize": 3}
        twin.plot(levels, [rung.recall for rung in rungs], ":", label="R@1 (right)", **look)
        twin.set_ylim(0, 1)
        twin.tick_params(labelsize=style.SMALL, color=style.GREY, labelcolor=style.GREY)
        twin.spines[["top", "right", "left", "bottom"]].set_visible(False)
        style.caption(axis, kind, x="level" if number >= len(kinds) - _LADDER_COLUMNS else "")
        if number % _LADDER_COLUMNS == 0:
            axis.set_ylabel("uncertainty, clean = 1", fontsize=style.TEXT)
        if number % _LADDER_COLUMNS == _LADDER_COLUMNS - 1 or number == len(kinds) - 1:
            twin.set_ylabel("R@1", fontsize=style.TEXT, color=style.GREY)
    lines = [*axes[0, 0].get_lines(), *twin.get_lines()]
    style.lower_key(figure, lines, [str(line.get_label()) for line in lines])
    return figure
