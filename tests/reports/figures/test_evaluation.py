"""Calibration, risk-coverage, OOD and corruption figures."""

import dataclasses

import numpy as np

from surefind.reports.figures.evaluation import (
    draw_calibration,
    draw_ladder,
    draw_ood,
    draw_risk_coverage,
)
from surefind.reports.report import write_figures
from surefind.reports.result import Report


def curves(axis):
    return {line.get_label().split("\n")[0]: line for line in axis.get_lines()}


def titles(figure) -> list[str]:
    return [axis.get_title(loc="left").split("\n")[0] for axis in figure.axes]


def test_the_left_curve_is_the_mean_precision_of_tenths_by_variance(evaluation):
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
    left, _ = draw_calibration([Report("Bayes", *evaluation)]).axes
    curve = curves(left)["query variance 0.150 [0.130, 0.170]"]
    np.testing.assert_allclose(curve.get_xdata(), np.arange(0.95, 0, -0.1))
    np.testing.assert_allclose(curve.get_ydata(), tenths)


def test_the_right_panel_compares_probabilities_with_correct_top_hits(evaluation):
    own = evaluation[1].own()
    order = np.argsort(own["means.probability.query_var"])
    tenths = np.array_split(own["means.match_1"][order], 10)
    _, right = draw_calibration([Report("Bayes", *evaluation)]).axes
    curve = curves(right)["query variance 0.050 [0.030, 0.070]"]
    np.testing.assert_allclose(curve.get_ydata(), [tenth.mean() for tenth in tenths])


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
    looks = {(c.get_color(), c.get_linestyle(), c.get_marker()) for c in left.get_lines()}
    assert len(looks) == 3
    assert "Plain, nearest distance d₁ 0.050 [0.030, 0.070]" in curves(right)


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
    _, right = draw_calibration([Report("Bayes", result, queries)]).axes
    assert next(iter(curves(right))).startswith("d₁/d₂ ")


def test_a_risk_curve_agrees_with_a_loop(evaluation):
    own = evaluation[1].own()
    errors, risks = 0, []
    for answered, row in enumerate(np.argsort(own["means.signal.query_var"]), start=1):
        errors += not own["means.match_1"][row]
        risks.append(errors / answered)
    curve = curves(draw_risk_coverage(*evaluation).axes[0])["query variance"]
    np.testing.assert_allclose(curve.get_ydata(), risks)
    np.testing.assert_allclose(curve.get_xdata(), np.arange(1, 121) / 120)


def test_the_oracle_lies_below_every_curve_and_random_is_the_error_rate(evaluation):
    found = curves(draw_risk_coverage(*evaluation).axes[0])
    best = np.asarray(found["oracle"].get_ydata())
    assert (best <= np.asarray(found["query variance"].get_ydata()) + 1e-12).all()
    error = 1 - evaluation[1].own()["means.match_1"].mean()
    np.testing.assert_allclose(found["random"].get_ydata(), error)


def test_ood_has_a_panel_per_signal_or_a_panel_per_report_of_the_pair_variance(evaluation):
    one = draw_ood([Report("Bayes", *evaluation)])
    assert len([title for title in titles(one) if title]) == 8
    of_pair = one.axes[1]
    assert of_pair.get_title(loc="left") == (
        "variance of the pair, cov[Δ]\nAUROC 0.900 [0.880, 0.920]"
    )
    both = draw_ood([Report("TripReg", *evaluation), Report("Bayes", *evaluation)])
    assert titles(both) == ["TripReg", "Bayes"]
    for axis in both.axes:
        for here, there in zip(axis.patches, of_pair.patches, strict=True):
            assert here.get_xy().tolist() == there.get_xy().tolist()


def test_ladder_curves_are_relative_to_the_clean_image_and_recall_has_its_own_axis(evaluation):
    result, queries = evaluation
    rungs = tuple(
        dataclasses.replace(rung, signals={n: 7 * v for n, v in rung.signals.items()})
        for rung in result.ladder.rungs
    )
    result = dataclasses.replace(result, ladder=dataclasses.replace(result.ladder, rungs=rungs))
    axes = draw_ladder(result, queries).axes
    (crop,) = (axis for axis in axes if axis.get_title(loc="left") == "crop")
    np.testing.assert_allclose(crop.get_lines()[0].get_ydata(), [1, 1.2, 1.4, 1.6, 1.8, 2])
    twins = [axis for axis in axes if not axis.get_title(loc="left")]
    assert len(twins) == 4
    np.testing.assert_allclose(twins[0].get_lines()[0].get_ydata(), [0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_a_report_without_a_ladder_leaves_that_figure_out_and_names_it(evaluation, tmp_path):
    result, queries = evaluation
    report = Report("Bayes", dataclasses.replace(result, ladder=None), queries)
    written = write_figures(["ladder", "risk-coverage"], [report], tmp_path, lenient=True)
    assert written.left_out == {"ladder": "the report has no corrupted queries"}
    assert [path.name for path in written.files] == ["risk-coverage.png"]
