"""The reliability plot."""

import dataclasses

import numpy as np
import pytest

from surefind.reports.figures.calibration import compare_calibration, draw_calibration
from surefind.reports.figures.report import Report


def line(axis, label: str):
    return next(line for line in axis.get_lines() if line.get_label() == label)


def test_the_titles_tell_the_errors_with_their_intervals(evaluation):
    left, right = draw_calibration(*evaluation).axes
    title = left.get_title(loc="left")
    assert "ECE@5 equal mass 0.150 [0.130, 0.170]" in title
    assert "ECE@5 equal width 0.150 [0.130, 0.170]" in title
    assert "ECE 0.050 [0.030, 0.070]" in right.get_title(loc="left")


def test_the_curve_is_the_mean_precision_of_tenths_by_variance(evaluation):
    result, queries = evaluation
    own = queries.own()
    order = np.argsort(own["means.signal.query_var"])
    hits, tenths = own.hits("means")[:, :5], []
    for tenth in np.array_split(order, 10):
        precisions = []
        for row in tenth:
            found = total = 0.0
            for place, hit in enumerate(hits[row], start=1):
                found += hit
                total += hit * found / place
            precisions.append(total / 5)
        tenths.append(np.mean(precisions))
    curve = line(draw_calibration(result, queries).axes[0], "mAP@5")
    np.testing.assert_allclose(curve.get_xdata(), np.arange(0.95, 0, -0.1))
    np.testing.assert_allclose(curve.get_ydata(), tenths)


def test_the_right_panel_compares_probabilities_with_right_top_hits(evaluation):
    result, queries = evaluation
    own = queries.own()
    order = np.argsort(own["means.probability.query_var"])
    tenths = np.array_split(own["means.match_1"][order], 10)
    curve = line(draw_calibration(result, queries).axes[1], "top hit")
    np.testing.assert_allclose(curve.get_ydata(), [tenth.mean() for tenth in tenths])


def test_the_right_panel_takes_the_best_signal(evaluation):
    result, queries = evaluation
    ranking = result.rankings["means"]
    better = dataclasses.replace(
        ranking.signals["ratio_1_2"],
        auroc=dataclasses.replace(ranking.signals["ratio_1_2"].auroc, value=0.99),
    )
    signals = ranking.signals | {"ratio_1_2": better}
    result = dataclasses.replace(
        result, rankings={"means": dataclasses.replace(ranking, signals=signals)}
    )
    title = draw_calibration(result, queries).axes[1].get_title(loc="left")
    assert title.startswith("Probability from d₁/d₂")


def test_a_model_without_variance_is_ranked_by_distance_and_the_title_says_so(without_variance):
    title = draw_calibration(*without_variance).axes[0].get_title(loc="left")
    assert title.startswith(
        "By nearest distance d₁; the model has no variance\nECE@5 equal mass 0."
    )


@pytest.mark.parametrize("ranking", ["means", "expected"])
def test_perfect_calibration_is_drawn_as_a_diagonal(evaluation, ranking: str):
    for axis in draw_calibration(*evaluation, ranking=ranking).axes:
        diagonal = line(axis, "perfectly calibrated")
        assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]


def test_several_reports_share_panels_and_keep_their_own_curves(evaluation, without_variance):
    figure = compare_calibration([Report("Bayes", *evaluation), Report("Plain", *without_variance)])
    left, right = figure.axes
    names = [curve.get_label().rsplit(" ", 1)[0] for curve in left.get_lines()]
    assert names == ["Bayes", "Plain, by distance", "perfectly"]
    for curve, report in zip(left.get_lines(), (evaluation, without_variance), strict=False):
        alone = line(draw_calibration(*report).axes[0], "mAP@5")
        np.testing.assert_allclose(curve.get_ydata(), alone.get_ydata())
    looks = {(c.get_color(), c.get_linestyle(), c.get_marker()) for c in left.get_lines()}
    assert len(looks) == 3
    assert [text.get_text() for text in right.get_legend().get_texts()][:2] == [
        "Bayes, query variance 0.050",
        "Plain, nearest distance d₁ 0.050",
    ]


def test_groups_have_panels_of_their_own_and_a_method_looks_the_same_in_both(evaluation):
    labels = ("R50/Bayes", "R50/TripReg", "D161/TripReg")
    axes = compare_calibration([Report(label, *evaluation) for label in labels]).axes
    assert [len(axis.get_lines()) for axis in axes] == [3, 3, 2, 2]
    assert axes[0].get_title(loc="left").startswith("R50: mAP@5")
    assert axes[0].get_lines()[1].get_color() == axes[2].get_lines()[0].get_color()
