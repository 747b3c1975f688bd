"""Figures of an evaluation, a calibration and a training run."""

from dataclasses import replace
from math import nan

import numpy as np
import pytest
from calibrations import GUARANTEE, make_calibration
from matplotlib.axes import Axes

from surefind.reports.figures.curves import (
    draw_calibration,
    draw_confidence,
    draw_ladder,
    draw_ood,
    draw_risk_coverage,
    training_figure,
)
from surefind.reports.report import write_figures
from surefind.reports.result import Report
from surefind.training.run_folder import StepInfo

NO_GUARANTEE = replace(GUARANTEE, threshold=None, coverage=0.0, selected=0, right=0)


def lines(axis: Axes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {
        str(line.get_label()).split(",")[0]: (np.asarray(line.get_xdata()), np.asarray(line.get_ydata()))
        for line in axis.get_lines()
    }


def test_reliability_agrees_with_bins_made_by_hand():
    calibration = make_calibration()
    left, _ = draw_confidence(calibration).axes
    curve = calibration.curve
    for name, said in (("confidence", curve.confidence), ("nearest distance", curve.baseline)):
        order = np.argsort(said)
        x = [np.mean(np.array(said)[rows]) for rows in np.array_split(order, 10)]
        y = [np.mean(np.array(curve.right)[rows]) for rows in np.array_split(order, 10)]
        drawn = lines(left)[name]
        np.testing.assert_allclose(drawn[0], x)
        np.testing.assert_allclose(drawn[1], y)


def test_the_guarantee_is_marked_where_it_ends_if_there_is_one():
    _, other = draw_confidence(make_calibration()).axes
    found = lines(other)
    assert found["guarantee ends"][0].tolist() == [0.41]
    assert found["guarantee ends"][1].tolist() == pytest.approx([1 - 326 / 333])
    np.testing.assert_allclose(found["0.95 right"][1], 0.05)
    assert "from confidence 0.830 on: 41 % of queries" in other.get_title(loc="left")
    _, other = draw_confidence(make_calibration(guarantee=NO_GUARANTEE)).axes
    assert "guarantee ends" not in lines(other)
    assert other.get_title(loc="left") == "Precision 0.95 is not guaranteed"


def step(number: int, *, loss: float = nan, recall: float = nan) -> StepInfo:
    return StepInfo(number, loss, 0.5, 0.1, 100, 1.0, 1e-4, 2.0 * number, recall, nan, nan)


def test_loss_and_recall_are_drawn_and_the_highest_recall_is_marked():
    log = [
        *(step(number, loss=loss) for number, loss in ((1, 0.9), (2, 0.7), (3, 0.6))),
        *(step(number, recall=recall) for number, recall in ((2, 0.4), (3, 0.3))),
    ]
    loss, _, recall = training_figure(log).axes
    assert loss.get_lines()[0].get_ydata().tolist() == [0.9, 0.7, 0.6]
    assert "best: 0.400" in recall.get_title(loc="left")


def curves(axis):
    return {line.get_label().split("\n")[0]: line for line in axis.get_lines()}


def titles(figure) -> list[str]:
    return [axis.get_title(loc="left").split("\n")[0] for axis in figure.axes]


def test_curves_are_the_mean_precision_and_the_right_hits_of_tenths(evaluation):
    own = evaluation[1].own()
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
    left, right = draw_calibration([Report("Bayes", *evaluation)]).axes
    curve = curves(left)["query variance 0.150 [0.130, 0.170]"]
    np.testing.assert_allclose(curve.get_xdata(), np.arange(0.95, 0, -0.1))
    np.testing.assert_allclose(curve.get_ydata(), tenths)
    by_probability = np.array_split(own["means.match_1"][np.argsort(own["means.probability.query_var"])], 10)
    curve = curves(right)["query variance 0.050 [0.030, 0.070]"]
    np.testing.assert_allclose(curve.get_ydata(), [tenth.mean() for tenth in by_probability])


def test_several_reports_share_panels_and_keep_their_own_curves(evaluation, without_variance):
    reports = [Report("Bayes", *evaluation), Report("Plain", *without_variance)]
    left, right = draw_calibration(reports).axes
    bayes, plain, diagonal = curves(left)
    assert bayes == "Bayes, query variance 0.150 [0.130, 0.170]"
    assert plain.startswith("Plain, nearest distance d₁ 0.")
    assert diagonal == "perfectly calibrated"
    for name, report in zip((bayes, plain), reports, strict=True):
        alone = draw_calibration([report]).axes[0].get_lines()[0]
        np.testing.assert_allclose(curves(left)[name].get_ydata(), alone.get_ydata())
    assert "Plain, nearest distance d₁ 0.050 [0.030, 0.070]" in curves(right)


def test_a_risk_curve_agrees_with_a_loop(evaluation):
    own = evaluation[1].own()
    errors, risks = 0, []
    for answered, row in enumerate(np.argsort(own["means.signal.query_var"]), start=1):
        errors += not own["means.match_1"][row]
        risks.append(errors / answered)
    curve = curves(draw_risk_coverage(*evaluation).axes[0])["query variance"]
    np.testing.assert_allclose(curve.get_ydata(), risks)
    np.testing.assert_allclose(curve.get_xdata(), np.arange(1, 121) / 120)


def test_ood_has_a_panel_per_signal_or_a_panel_per_report_of_the_pair_variance(evaluation):
    one = draw_ood([Report("Bayes", *evaluation)])
    assert len([title for title in titles(one) if title]) == 8
    of_pair = one.axes[1]
    assert of_pair.get_title(loc="left") == ("variance of the pair, cov[Δ]\nAUROC 0.900 [0.880, 0.920]")
    both = draw_ood([Report("TripReg", *evaluation), Report("Bayes", *evaluation)])
    assert titles(both) == ["TripReg", "Bayes"]
    for axis in both.axes:
        for here, there in zip(axis.patches, of_pair.patches, strict=True):
            assert here.get_xy().tolist() == there.get_xy().tolist()


def test_ladder_curves_are_relative_to_the_clean_image_and_recall_has_its_own_axis(evaluation):
    result, queries = evaluation
    rungs = tuple(replace(rung, signals={n: 7 * v for n, v in rung.signals.items()}) for rung in result.ladder.rungs)
    result = replace(result, ladder=replace(result.ladder, rungs=rungs))
    axes = draw_ladder(result, queries).axes
    (crop,) = (axis for axis in axes if axis.get_title(loc="left") == "crop")
    np.testing.assert_allclose(crop.get_lines()[0].get_ydata(), [1, 1.2, 1.4, 1.6, 1.8, 2])
    twins = [axis for axis in axes if not axis.get_title(loc="left")]
    assert len(twins) == 4
    np.testing.assert_allclose(twins[0].get_lines()[0].get_ydata(), [0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_a_report_without_a_ladder_leaves_that_figure_out_and_names_it(evaluation, tmp_path):
    result, queries = evaluation
    report = Report("Bayes", replace(result, ladder=None), queries)
    names = ["ladder", "risk-coverage"]
    files, left_out = write_figures(names, [report], tmp_path, lenient=True)
    assert left_out == {"ladder": "the report has no corrupted queries"}
    assert [path.name for path in files] == ["risk-coverage.png"]
