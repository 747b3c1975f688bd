"""Figures of an evaluation, a calibration and a training run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binomtest  # type: ignore[import-untyped]

from surefind.confidence.calibration import Calibration
from surefind.confidence.guarantee import PrecisionGuarantee
from surefind.metrics import (
    average_precision_at_k,
    calibration_floor,
    debiased_calibration_error,
    expected_calibration_error,
    reliability_bins,
    risk_coverage,
)
from surefind.reports.figures import style
from surefind.reports.index_evaluation import ALL, Answers, IndexEvaluation
from surefind.reports.result import SHOWN, EvalResult, QueryTable, Report
from surefind.reports.signals import ranking_name, signal_name
from surefind.training.run_folder import StepInfo

_K = 5
_OOD_COLUMNS, _BINS = 3, 40
_LADDER_COLUMNS = 2
FUSED, BASELINE = "confidence", "nearest distance"
GUARANTEE_ENDS = "guarantee ends"
MOST_INSIDE = 3  # curves whose legend fits into a panel


def draw_calibration(reports: Sequence[Report], *, ranking: str = "means") -> Figure:
    """Plot mAP by rank of the uncertainty, and correct top hits by their probability.

    Every report is one curve in each of the two panels.
    """
    figure, ((left, right),) = style.panels(1, 2, height=4.5 + 0.19 * len(reports))
    for number, (label, result, queries) in enumerate(reports):
        own, measured, look = queries.own(), result.rankings[ranking], style.curve_look(number)
        signal = style.main_signal(own, ranking)
        uncertainty = torch.from_numpy(own.signals(ranking)[signal])
        hits, matches = torch.from_numpy(own.hits(ranking)), torch.from_numpy(own["n_matches"])
        precision = [average_precision_at_k(hits, matches, k) for k in range(1, SHOWN + 1)]
        bins = [reliability_bins(uncertainty, ap, definition="equal_mass") for ap in precision]
        low, high = torch.stack([each.outcome for each in bins]).aminmax(dim=0)
        rank = bins[0].confidence
        left.fill_between(rank, low, high, color=look["color"], alpha=0.15, linewidth=0)
        error = measured.ece.get("equal_mass", {}).get(f"ECE@{_K}")
        if error is None:
            ece = expected_calibration_error
            value = f"{float(ece(uncertainty, precision[_K - 1], definition='equal_mass')):.3f}"
        else:
            value = style.interval(error)
        start = f"{label}, " if len(reports) > 1 else ""
        name = f"{start}{signal_name(signal)} {value}"
        left.plot(rank, bins[_K - 1].outcome, label=name, **look)
        aurocs = {n: its["auroc"].value for n, its in measured.signals.items() if "auroc" in its}
        best = max(aurocs, key=lambda name: aurocs[name], default=signal)
        error = measured.signals[best].get("ece")
        if error is not None:
            probability = torch.from_numpy(own[f"{ranking}.probability.{best}"])
            correct = torch.from_numpy(own[f"{ranking}.match_1"]).double()
            of_best = reliability_bins(probability, correct, definition="probability")
            name = f"{start}{signal_name(best)} {style.interval(error)}"
            right.plot(of_best.confidence, of_best.outcome, label=name, **look)
    below = {"loc": "upper left", "bbox_to_anchor": (0, -0.13), "borderaxespad": 0}
    for axis, key in ((left, f"ECE@{_K}, equal mass"), (right, "ECE")):
        axis.plot([0, 1], [0, 1], "--", color=style.GREY, linewidth=0.9, label="perfectly calibrated")
        axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        style.key(axis, title=key, **below)
    ranked, shaded = "confidence: rank of the uncertainty", f"mAP@{_K}, shaded mAP@1 to mAP@{SHOWN}"
    style.caption(left, shaded, x=ranked, y="mean average precision")
    probable, best = "probability that the top hit is right", "Probability from the best signal"
    style.caption(right, best, x=probable, y="share of right top hits")
    return figure


def draw_risk_coverage(_: EvalResult, queries: QueryTable, *, ranking: str = "means") -> Figure:
    """One curve per signal, between the best possible order (oracle) and a random one."""
    own = queries.own()
    signals, right = own.signals(ranking), own[f"{ranking}.match_1"]
    error = 1 - float(right.mean())
    figure, ((axis,),) = style.panels(1, 1, height=4.2)
    top = error
    for name, colours in style.signal_styles(signals).items():
        answers = Answers(signals[name], right, uses_labels=False)
        top = max(top, _draw_risk(axis, answers, f"{signal_name(name)}\nAURC {{:.3f}}", colours))
    oracle = Answers(-right.astype(float), right, uses_labels=False)
    _draw_risk(axis, oracle, "oracle\nAURC {:.3f}", {"color": style.INK, "linewidth": 0.8})
    axis.axhline(error, color=style.GREY, linestyle=":", linewidth=1, label=f"random\nAURC {error:.3f}")
    style.caption(
        axis,
        f"Errors among the surest queries; ranked by {ranking_name(ranking)}",
        x="share of queries answered, the surest first",
        y="share of wrong top hits",
    )
    axis.set(xlim=(0, 1), ylim=(0, 1.1 * top or 1))
    figure.legend(fontsize=style.SMALL, frameon=False, loc="outside right upper", labelspacing=0.8)
    return figure


def draw_ood(reports: Sequence[Report], *, ranking: str = "means") -> Figure:
    """Plot histograms of in-catalogue and foreign queries.

    One report has a panel per signal; several have a panel each, of cov[Δ].
    """
    for report in reports:
        style.check_foreign(report.queries)
    if len(reports) == 1:
        signals = [(reports[0], name) for name in reports[0].queries.signals(ranking)]
        names = [signal_name(signal) for _, signal in signals]
        foreign = style.shortened(reports[0].result.about.foreign, 60)
        title = f"In-catalogue and foreign queries ({foreign})"
    else:
        signals = [(each, style.main_signal(each.queries, ranking, "pair_var")) for each in reports]
        names = [
            report.label if signal == "pair_var" else f"{report.label}: {signal_name(signal)}"
            for report, signal in signals
        ]
        title = "In-catalogue and foreign queries by cov[Δ] of the query and its top hit"
    columns = min(_OOD_COLUMNS, len(signals))
    rows = -(-len(signals) // columns)
    figure, axes = style.panels(rows, columns, height=0.8 + 1.9 * rows, title=title)
    for axis in axes.flat[len(signals) :]:
        axis.set_axis_off()
    for axis, (report, signal), name in zip(axes.flat, signals, names, strict=False):
        _draw_histograms(axis, report, signal, ranking=ranking, title=name)
    for axis in axes[:, 0]:
        axis.set_ylabel("share of queries", fontsize=style.TEXT)
    style.lower_key(figure, *axes[0, 0].get_legend_handles_labels())
    return figure


def _draw_histograms(axis: Axes, report: Report, signal: str, *, ranking: str, title: str) -> None:
    _, result, queries = report
    values, foreign = queries.signals(ranking)[signal], queries["foreign"]
    own = values[~foreign & (queries["n_matches"] > 0)]
    both = np.concatenate([own, values[foreign]])
    if style.spans_decades(both):
        axis.set_xscale("log")
        edges = np.geomspace(both.min(), both.max(), _BINS + 1)
    else:
        edges = np.histogram_bin_edges(both, _BINS)
    groups = ((own, style.OURS, "in catalogue", ""), (values[foreign], style.WRONG, "foreign", "////"))
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
    found = result.rankings[ranking].signals[signal].get("ood_auroc")
    style.caption(axis, title + (f"\nAUROC {style.interval(found)}" if found else ""))


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


def draw_confidence(calibration: Calibration) -> Figure:
    """Plot reliability and risk-coverage of first hits, cross-fitted by class."""
    curve, origin = calibration.curve, calibration.origin
    answers = {}
    for name, values, right in (
        (FUSED, curve.confidence, curve.right),
        (BASELINE, curve.baseline, curve.baseline_right),
    ):
        sure = np.array(values)
        answers[name] = Answers(-sure, np.array(right), uses_labels=False, probability=sure)
    title = f"{origin.queries:,} queries of {origin.classes:,} classes, {origin.created[:10]}; cross-fitted by class"
    return _draw_answers(answers, calibration.guarantee, title=title)


def draw_index(evaluation: IndexEvaluation) -> Figure:
    """Plot reliability and risk-coverage of an index beside other signals."""
    answers = {signal_name(name): its for name, its in evaluation.answers.items()}
    every = evaluation.verdicts[ALL]
    guarantee = evaluation.guarantee
    if not evaluation.guaranteed:
        guarantee = replace(guarantee, threshold=None)
    elif every.match:
        guarantee = replace(
            guarantee,
            threshold=evaluation.threshold,
            coverage=every.match / every.queries,
            selected=every.match,
            right=every.right,
        )
    title = f"{evaluation.queries:,} queries of {evaluation.classes:,} classes"
    return _draw_answers(answers, guarantee, title=title, mark="verdict match ends")


def _draw_answers(
    answers: Mapping[str, Answers], guarantee: PrecisionGuarantee, *, title: str, mark: str = GUARANTEE_ENDS
) -> Figure:
    """Plot reliability, and risk over coverage with the end of the guarantee."""
    many = len(answers) > MOST_INSIDE
    figure, ((left, other),) = style.panels(1, 2, height=6.1 if many else 4.4, title=title)
    left.plot([0, 1], [0, 1], ":", color=style.GREY, linewidth=1, label="perfectly calibrated")
    top = 1 - guarantee.precision
    for number, (name, its) in enumerate(answers.items()):
        look = style.curve_look(number)
        if its.probability is not None:
            _draw_reliability(left, name, its, look, with_intervals=number == 0)
        top = max(top, _draw_risk(other, its, f"{name}, AURC {{:.3f}}", look | {"marker": "", "clip_on": True}))
    style.caption(left, "Reliability", x="confidence, in bins of equally many", y="share of right answers")
    left.set(xlim=(0, 1), ylim=(0, 1), box_aspect=1)
    _draw_guarantee(other, guarantee, top, mark=mark)
    other.set(xlim=(0, 1), ylim=(0, (1.1 if many else 1.4) * top), box_aspect=1)  # and the legend
    below = {"loc": "upper left", "bbox_to_anchor": (0, -0.16), "borderaxespad": 0}
    for axis in (left, other):
        style.key(axis, **(below if many else {"loc": "upper left"}))
    return figure


def _draw_reliability(axis: Axes, name: str, answers: Answers, look: dict[str, Any], *, with_intervals: bool) -> None:
    """Plot bins of equally many queries, with Wilson's 95 % interval."""
    sure, right = torch.from_numpy(answers.probability), torch.from_numpy(answers.right)
    bins = reliability_bins(sure, right.double(), definition="probability")
    filled = bins.weight > 0
    x, y, n = bins.confidence[filled], bins.outcome[filled], bins.weight[filled]
    if with_intervals:
        found = [
            binomtest(round(share * count), round(count)).proportion_ci(method="wilson")
            for share, count in zip(y.tolist(), n.tolist(), strict=True)
        ]
        low, high = [interval.low for interval in found], [interval.high for interval in found]
        axis.vlines(x, low, high, color=look["color"], linewidth=1, alpha=0.5)
    error, floor = debiased_calibration_error(sure, right), calibration_floor(sure)
    label = f"{name},\nECE {error:.3f} (perfect: {floor:.3f})"
    axis.plot(x, y, label=label, **look)


def _draw_risk(axis: Axes, answers: Answers, label: str, look: dict[str, Any]) -> float:
    """Plot risk over coverage; return the highest risk but for a few queries."""
    curve = risk_coverage(-torch.from_numpy(answers.uncertainty), torch.from_numpy(answers.right))
    axis.plot(curve.coverage, curve.risk, label=label.format(curve.area), **look)
    return float(curve.risk[curve.coverage >= style.NOISE].max())


def _draw_guarantee(axis: Axes, guarantee: PrecisionGuarantee, top: float, *, mark: str) -> None:
    allowed = f"{guarantee.precision:g} right"
    axis.axhline(1 - guarantee.precision, color=style.GREY, linestyle=":", linewidth=1, label=allowed)
    title = f"Precision {guarantee.precision:g} is not guaranteed"
    if guarantee.threshold is not None:
        title = (
            f"Guarantee ({100 * guarantee.probability:.0f} % probability): "
            f"precision ≥ {guarantee.precision:g}\nfrom confidence {guarantee.threshold:.3f} on: "
            f"{100 * guarantee.coverage:.0f} % of queries"
        )
        end, wrong = guarantee.coverage, 1 - guarantee.right / guarantee.selected
        axis.vlines(end, 0, 0.85 * top, color=style.INK, linewidth=0.9)
        look: dict[str, Any] = {"marker": "D", "markersize": 5, "linestyle": "", "clip_on": False}
        axis.plot(end, wrong, color=style.INK, label=mark, **look)
    answered = "share of queries answered, the surest first"
    style.caption(axis, title, x=answered, y="share of wrong answers")


def training_figure(log: Sequence[StepInfo]) -> Figure:
    """Plot loss, share of ordered triplets and validation recall over the steps."""
    steps = [info for info in log if info.loss == info.loss]
    validated = [info for info in log if info.recall == info.recall]
    figure, axes = style.panels(1, 3, height=2.6)
    curves = (
        ("loss", [(info.step, info.loss) for info in steps]),
        ("triplets in the right order", [(info.step, info.win_rate) for info in steps]),
        ("R@1 on validation classes", [(info.step, info.recall) for info in validated]),
    )
    for axis, (title, points) in zip(axes[0], curves, strict=True):
        style.caption(axis, title, x="step")
        if points:
            marker = "o" if len(points) < 40 else None
            axis.plot(*zip(*points, strict=True), color=style.OURS, marker=marker, markersize=3)
    if validated:
        best = max(validated, key=lambda info: info.recall)
        style.caption(axes[0, 2], f"R@1 in validation (best: {best.recall:.3f})", x="step")
        axes[0, 2].plot(best.step, best.recall, "o", color=style.WRONG)
    return figure
