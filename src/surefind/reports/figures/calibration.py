"""Is the model as sure as it is right? Reliability of its variance, and of its probability."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from surefind.metrics import average_precision_at_k, expected_calibration_error, reliability_bins
from surefind.metrics.bins import ReliabilityBins
from surefind.reports.figures.palette import GREY, OURS
from surefind.reports.figures.panels import caption, interval, key, lower_key, panels, series_styles
from surefind.reports.figures.report import Report, grouped
from surefind.reports.figures.signals import main_signal
from surefind.reports.names import signal_name
from surefind.reports.queries import SHOWN, QueryTable
from surefind.reports.result import EvalResult

_K = 5
_DEFINITIONS = ("equal_mass", "equal_width")
_LINE: dict[str, Any] = {"color": OURS, "marker": "o", "markersize": 4, "clip_on": False}
_RANK_AXES = {"x": "confidence: rank of the uncertainty", "y": "mean average precision"}
_PROBABILITY_AXES = {"x": "probability that the top hit is right", "y": "share of right top hits"}


def draw_calibration(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """Left: mAP over the rank of the uncertainty. Right: correct top hits over the probability."""
    figure, axes = panels(1, 2, height=4.7)
    left, right = axes[0]
    own = queries.own()
    rank = _rank_curve(own, ranking)
    _draw_rank(left, rank, _LINE, band=f"mAP@1 to mAP@{SHOWN}", line=f"mAP@{_K}")
    missing = "" if rank.signal == "query_var" else "; the model has no variance"
    title = [f"By {signal_name(rank.signal)}{missing}"]
    for definition in _DEFINITIONS:
        told = result.rankings[ranking].ece.get(definition, {}).get(str(_K))
        value = interval(told) if told else f"{rank.error(definition):.3f}"
        title.append(f"ECE@{_K} {definition.replace('_', ' ')} {value}")
    caption(left, "\n".join(title), **_RANK_AXES)
    best = _best_signal(result, own, ranking)
    error = result.rankings[ranking].signals[best].ece
    title = [f"Probability from {signal_name(best)}"]
    title.append(f"ECE {interval(error) if error else 'unknown'}")
    caption(right, "\n".join(title), **_PROBABILITY_AXES)
    if bins := _probability_bins(own, ranking, best):
        right.plot(bins.confidence, bins.outcome, label="top hit", **_LINE)
    _finish(axes[0])
    shown = dict(entry for axis in axes.flat for entry in _entries(axis))
    lower_key(figure, list(shown.values()), list(shown))
    return figure


def compare_calibration(reports: Sequence[Report], *, ranking: str = "means") -> Figure:
    """The curves of several reports in the same panels, a row of panels for each group of them."""
    groups = grouped(reports)
    styles = series_styles(report.label for some in groups.values() for report in some)
    entries = 2 + max(map(len, groups.values()))  # of the longest legend, its title included
    figure, axes = panels(len(groups), 2, height=(4.1 + 0.19 * entries) * len(groups))
    for (left, right), (group, some) in zip(axes, groups.items(), strict=True):
        for label, result, queries in some:
            own, look = queries.own(), styles[label] | {"markersize": 4, "clip_on": False}
            rank = _rank_curve(own, ranking)
            name = label if rank.signal == "query_var" else f"{label}, by distance"
            line = f"{name} {rank.error('equal_mass'):.3f}"
            _draw_rank(left, rank, look, line=line)
            best = _best_signal(result, own, ranking)
            if bins := _probability_bins(own, ranking, best):
                error = result.rankings[ranking].signals[best].ece
                value = f" {error.value:.3f}" if error else ""
                line = f"{label}, {signal_name(best)}{value}"
                right.plot(bins.confidence, bins.outcome, label=line, **look)
        before = f"{group}: " if group else ""
        caption(left, f"{before}mAP@{_K}, shaded mAP@1 to mAP@{SHOWN}", **_RANK_AXES)
        caption(right, f"{before}probability by the best signal", **_PROBABILITY_AXES)
        _finish((left, right))
        below = {"loc": "upper left", "bbox_to_anchor": (0, -0.13), "borderaxespad": 0}
        key(left, title=f"ECE@{_K}, equal mass", **below)
        key(right, title="ECE", **below)
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
        found = expected_calibration_error(
            self.values, self.precision[_K - 1], definition=definition
        )
        return float(found)


def _rank_curve(own: QueryTable, ranking: str) -> _RankCurve:
    signal = main_signal(own, ranking)
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
    return max(ranks, key=lambda name: ranks[name], default=main_signal(own, ranking))


def _probability_bins(own: QueryTable, ranking: str, signal: str) -> ReliabilityBins | None:
    """Right top hits by the probability that the signal was turned into."""
    column = f"{ranking}.probability.{signal}"
    if column not in own or not (known := np.isfinite(own[column])).any():
        return None
    right = torch.from_numpy(own[f"{ranking}.match_1"][known]).double()
    return reliability_bins(torch.from_numpy(own[column][known]), right, definition="probability")


def _finish(axes: Iterable[Axes]) -> None:
    for axis in axes:
        axis.plot([0, 1], [0, 1], "--", color=GREY, linewidth=0.9, label="perfectly calibrated")
        axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")


def _entries(axis: Axes) -> list[tuple[str, Artist]]:
    """What the legend names."""
    curves, names = axis.get_legend_handles_labels()
    return list(zip(names, curves, strict=True))
