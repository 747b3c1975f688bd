"""Own and foreign queries, side by side."""

import pytest

from surefind.reports.figures.missing import NothingToDraw
from surefind.reports.figures.ood import draw_ood


def test_every_signal_has_a_panel_with_its_auroc(evaluation):
    axes = draw_ood(*evaluation).axes
    titles = [axis.get_title(loc="left") for axis in axes]
    assert len(titles) == 6
    assert titles[0] == "query variance\nAUROC 0.900 [0.880, 0.920]"


def test_both_groups_are_shares_of_their_own_queries(evaluation):
    own, foreign = draw_ood(*evaluation).axes[0].patches
    assert (own.get_label(), foreign.get_label()) == ("own", "foreign")
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
