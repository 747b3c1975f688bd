"""Calibration, risk and coverage, foreign queries and corruption, drawn."""

import dataclasses

import numpy as np

from surefind.reports.figures.evaluation import (
    compare_calibration,
    compare_ood,
    draw_calibration,
    draw_ladder,
    draw_ood,
    draw_risk_coverage,
)
from surefind.reports.result import Report


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


def test_a_model_without_variance_is_ranked_by_distance_and_the_title_says_so(without_variance):
    title = draw_calibration(*without_variance).axes[0].get_title(loc="left")
    assert title.startswith(
        "By nearest distance d₁; the model has no variance\nECE@5 equal mass 0."
    )


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


def lines(figure):
    return {line.get_label().split("\n")[0]: line for line in figure.axes[0].get_lines()}


def test_a_curve_agrees_with_a_loop(evaluation):
    result, queries = evaluation
    own = queries.own()
    errors, risks = 0, []
    for answered, row in enumerate(np.argsort(own["means.signal.query_var"]), start=1):
        errors += not own["means.match_1"][row]
        risks.append(errors / answered)
    curve = lines(draw_risk_coverage(result, queries))["query variance"]
    np.testing.assert_allclose(curve.get_ydata(), risks)
    np.testing.assert_allclose(curve.get_xdata(), np.arange(1, 121) / 120)


def test_the_oracle_lies_below_every_curve_and_random_is_the_error_rate(evaluation):
    result, queries = evaluation
    found = lines(draw_risk_coverage(result, queries))
    best = np.asarray(found["oracle"].get_ydata())
    assert (best <= np.asarray(found["query variance"].get_ydata()) + 1e-12).all()
    error = 1 - queries.own()["means.match_1"].mean()
    np.testing.assert_allclose(found["random"].get_ydata(), error)


def test_every_signal_has_a_panel_with_its_auroc(evaluation):
    axes = draw_ood(*evaluation).axes
    titles = [title for axis in axes if (title := axis.get_title(loc="left"))]
    assert len(titles) == 8
    assert titles[0] == "query variance\nAUROC 0.900 [0.880, 0.920]"


def titles(figure) -> list[str]:
    return [axis.get_title(loc="left").split("\n")[0] for axis in figure.axes]


def test_several_reports_have_a_panel_each_of_the_joint_variance(evaluation):
    figure = compare_ood([Report("TripReg", *evaluation), Report("Bayes", *evaluation)])
    assert titles(figure) == ["TripReg", "Bayes"]
    of_one = draw_ood(*evaluation).axes[1]
    assert of_one.get_title(loc="left").startswith("variance of the pair")
    for axis in figure.axes:
        for here, there in zip(axis.patches, of_one.patches, strict=True):
            assert here.get_xy().tolist() == there.get_xy().tolist()


def test_groups_begin_rows_of_their_own(evaluation):
    labels = ("R50/A", "R50/B", "R50/C", "R50/D", "D161/A")
    figure = compare_ood([Report(label, *evaluation) for label in labels])
    assert titles(figure) == ["R50, A", "R50, B", "R50, C", "R50, D", "", "", "D161, A", "", ""]


def panels(figure):
    return {axis.get_title(loc="left"): axis for axis in figure.axes if axis.get_title(loc="left")}


def test_curves_are_relative_to_the_clean_image(evaluation):
    result, queries = evaluation
    rungs = tuple(
        dataclasses.replace(rung, signals={n: 7 * v for n, v in rung.signals.items()})
        for rung in result.ladder.rungs
    )
    result = dataclasses.replace(result, ladder=dataclasses.replace(result.ladder, rungs=rungs))
    curve = panels(draw_ladder(result, queries))["crop"].get_lines()[0]
    np.testing.assert_allclose(curve.get_ydata(), [1, 1.2, 1.4, 1.6, 1.8, 2])


def test_recall_is_drawn_on_its_own_axis(evaluation):
    twins = [axis for axis in draw_ladder(*evaluation).axes if not axis.get_title(loc="left")]
    assert len(twins) == 4
    np.testing.assert_allclose(twins[0].get_lines()[0].get_ydata(), [0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


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
