"""Is the model as sure as it is right? Reliability of its variance, and of its probability."""

from typing import Any

import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from surefind.metrics import average_precision_at_k, expected_calibration_error, reliability_bins
from surefind.reports.figures.palette import GREY, OURS
from surefind.reports.figures.panels import caption, interval, lower_key, panels
from surefind.reports.figures.signals import main_signal
from surefind.reports.names import signal_name
from surefind.reports.queries import SHOWN, QueryTable
from surefind.reports.result import EvalResult

_K = 5
_DEFINITIONS = ("equal_mass", "equal_width")
_LINE: dict[str, Any] = {"color": OURS, "marker": "o", "markersize": 4, "clip_on": False}


def draw_calibration(result: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """Left: mAP over the rank of the uncertainty. Right: correct top hits over the probability."""
    figure, axes = panels(1, 2, height=4.7)
    own = queries.own()
    _draw_rank(axes[0, 0], result, own, ranking)
    _draw_probability(axes[0, 1], result, own, ranking)
    for axis in axes.flat:
        axis.plot([0, 1], [0, 1], "--", color=GREY, linewidth=0.9, label="as sure as right")
        axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    shown = dict(entry for axis in axes.flat for entry in _entries(axis))
    lower_key(figure, list(shown.values()), list(shown))
    return figure


def _draw_rank(axis: Axes, result: EvalResult, own: QueryTable, ranking: str) -> None:
    """The surest tenth promises 0.95, the vaguest 0.05."""
    signal = main_signal(own, ranking)
    known = np.isfinite(own.signals(ranking)[signal])
    own = own.select(known)
    values = torch.from_numpy(own.signals(ranking)[signal])
    precision = _average_precision(own, ranking)
    found = [reliability_bins(values, ap, definition="equal_mass") for ap in precision]
    outcome = torch.stack([bins.outcome for bins in found])
    x = found[0].confidence
    axis.fill_between(
        x,
        outcome.min(0).values,
        outcome.max(0).values,
        color=OURS,
        alpha=0.18,
        linewidth=0,
        label=f"mAP@1 to mAP@{SHOWN}",
    )
    axis.plot(x, outcome[_K - 1], label=f"mAP@{_K}", **_LINE)
    missing = "" if signal == "query_var" else "; the model has no variance"
    title = [f"By {signal_name(signal)}{missing}"]
    for definition in _DEFINITIONS:
        told = result.rankings[ranking].ece.get(definition, {}).get(str(_K))
        error = expected_calibration_error(values, precision[_K - 1], definition=definition)
        value = interval(told) if told else f"{error:.3f}"
        title.append(f"ECE@{_K} {definition.replace('_', ' ')} {value}")
    caption(
        axis, "\n".join(title), x="confidence: rank of the uncertainty", y="mean average precision"
    )


def _draw_probability(axis: Axes, result: EvalResult, own: QueryTable, ranking: str) -> None:
    """Of the signal that tells wrong top hits best."""
    signals = result.rankings[ranking].signals
    ranks = {name: found.auroc.value for name, found in signals.items() if found.auroc}
    best = max(ranks, key=lambda name: ranks[name], default=main_signal(own, ranking))
    column = f"{ranking}.probability.{best}"
    probability = own[column] if column in own else np.full(len(own), np.nan)
    known = np.isfinite(probability)
    error = signals[best].ece
    title = f"Probability from {signal_name(best)}\nECE {interval(error) if error else 'unknown'}"
    caption(axis, title, x="probability that the top hit is right", y="share of right top hits")
    if known.any():
        right = torch.from_numpy(own[f"{ranking}.match_1"][known])
        bins = reliability_bins(
            torch.from_numpy(probability[known]), right.double(), definition="probability"
        )
        axis.plot(bins.confidence, bins.outcome, label="top hit", **_LINE)


def _entries(axis: Axes) -> list[tuple[str, Artist]]:
    """What the legend names."""
    curves, names = axis.get_legend_handles_labels()
    return list(zip(names, curves, strict=True))


def _average_precision(own: QueryTable, ranking: str) -> list[Tensor]:
    """AP@1 to AP@10 of each query."""
    hits = torch.from_numpy(own.hits(ranking))
    matches = torch.from_numpy(own["n_matches"])
    return [average_precision_at_k(hits, matches, k) for k in range(1, SHOWN + 1)]
