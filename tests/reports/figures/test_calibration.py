"""The reliability plot."""

import dataclasses

import numpy as np
import pytest

from surefind.reports.figures.calibration import draw_calibration


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
        diagonal = line(axis, "as sure as right")
        assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
