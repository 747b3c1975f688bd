"""In-catalogue and foreign queries, side by side."""

import pytest

from surefind.reports.figures.missing import NothingToDraw
from surefind.reports.figures.ood import compare_ood, draw_ood
from surefind.reports.figures.report import Report


def test_every_signal_has_a_panel_with_its_auroc(evaluation):
    axes = draw_ood(*evaluation).axes
    titles = [title for axis in axes if (title := axis.get_title(loc="left"))]
    assert len(titles) == 8
    assert titles[0] == "query variance\nAUROC 0.900 [0.880, 0.920]"


def test_both_groups_are_shares_of_their_own_queries(evaluation):
    own, foreign = draw_ood(*evaluation).axes[0].patches
    assert (own.get_label(), foreign.get_label()) == ("in catalogue", "foreign")
    for outline in (own, foreign):
        heights = outline.get_xy()[:, 1]
        assert heights.min() == 0
        assert 0.02 < heights.max() <= 1


def test_only_wide_ranges_get_a_logarithmic_axis(evaluation):
    result, queries = evaluation
    columns = {**queries.columns, "means.signal.ratio_1_2": queries["means.signal.ratio_1_2"] + 1}
    columns["means.signal.query_var"] = 10 ** queries["means.signal.query_var"]
    axes = draw_ood(result, type(queries)(columns)).axes
    assert axes[0].get_xscale() == "log"
    assert axes[4].get_xscale() == "linear"


def test_without_foreign_queries_the_error_says_how_to_get_them(without_variance):
    with pytest.raises(NothingToDraw, match="--ood DATA"):
        draw_ood(*without_variance)


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


def test_a_report_without_foreign_queries_cannot_be_compared(evaluation, without_variance):
    with pytest.raises(NothingToDraw, match="--ood DATA"):
        compare_ood([Report("A", *evaluation), Report("B", *without_variance)])
