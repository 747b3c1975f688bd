"""The paper's tables are typed as they are printed."""

import pytest

from surefind.reports.reproduce.paper import _TABLES, COLUMNS, REMARKS, paper_figures, paper_remarks
from surefind.reports.reproduce.plan import ROWS

ROWS_OF_TABLES = [
    (dataset, backbone, row) for (dataset, backbone), table in _TABLES.items() for row in table
]


# R@1, R@5, R@10, M@1, M@5, M@10, ECE@1, ECE@5, ECE@10, as tables 1 to 3 of the paper print them.


@pytest.mark.parametrize("where", ROWS_OF_TABLES, ids=" ".join)
def test_figures_are_possible(where):
    figures = paper_figures(*where)
    assert list(figures) in [list(COLUMNS), list(COLUMNS[:6])]
    assert all(0 < figure < 1 for figure in figures.values())
    assert figures["R@1"] < figures["R@5"] < figures["R@10"]
    assert figures["M@1"] > figures["M@5"] > figures["M@10"]
    assert ("ECE@1" in figures) == (where[2] != "Triplet")


def test_recall_and_precision_at_one_differ_only_where_a_footnote_says_so():
    odd = {
        where
        for where in ROWS_OF_TABLES
        if paper_figures(*where)["R@1"] != paper_figures(*where)["M@1"]
    }
    assert odd == {remark[:3] for remark in REMARKS if remark.columns == ("R@1", "M@1")}
    assert len(odd) == 2


def test_the_copied_calibration_row_has_a_footnote():
    copied, source = (paper_figures("msls", "resnet50", row) for row in ("Bayes vMF", "TripReg"))
    [remark] = paper_remarks("msls", "resnet50", "Bayes vMF")
    assert remark.columns == COLUMNS[6:]
    assert [copied[column] for column in remark.columns] == [source[c] for c in remark.columns]


def test_every_row_of_the_paper_is_one_of_ours():
    assert {row for _, _, row in ROWS_OF_TABLES} == {row.paper for row in ROWS if row.paper}


def test_a_row_that_the_paper_does_not_have_is_empty():
    assert paper_figures("msls", "resnet50", "Triplet (MC=50)") == {}
    assert paper_figures("glyphs", "resnet50", "Triplet") == {}
    assert paper_figures("cub200", "resnet50", None) == {}
