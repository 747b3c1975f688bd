"""The paper's tables are typed as they are printed."""

import pytest

from surefind.reports.reproduce.paper import COLUMNS, REMARKS, paper_tables
from surefind.reports.reproduce.plan import ROWS

# The sum of all figures of each table, added up from the printed ones.
PRINTED = {
    ("cub200", "resnet50"): 21.456,
    ("cub200", "densenet161"): 26.485,
    ("cars196", "resnet50"): 13.975,
    ("cars196", "densenet161"): 18.476,
    ("msls", "resnet50"): 12.986,
    ("msls", "densenet161"): 16.268,
}


def test_the_figures_of_each_table_add_up_to_the_printed_ones():
    sums = dict.fromkeys(PRINTED, 0.0)
    for (dataset, backbone, _), figures in paper_tables().items():
        sums[dataset, backbone] += sum(figures.values())
    assert sums == pytest.approx(PRINTED, abs=1e-6)
    assert sum(map(len, paper_tables().values())) == 243


@pytest.mark.parametrize("where", paper_tables(), ids=" ".join)
def test_figures_are_possible(where):
    figures = paper_tables()[where]
    assert list(figures) in [list(COLUMNS), list(COLUMNS[:6])]
    assert all(0 < figure < 1 for figure in figures.values())
    assert figures["R@1"] < figures["R@5"] < figures["R@10"]
    assert figures["M@1"] > figures["M@5"] > figures["M@10"]
    assert ("ECE@1" in figures) == (where[2] != "Triplet")


def test_recall_and_precision_at_one_differ_only_where_a_footnote_says_so():
    odd = {where for where, figures in paper_tables().items() if figures["R@1"] != figures["M@1"]}
    assert odd == {where for where, (columns, _) in REMARKS.items() if columns == ("R@1", "M@1")}
    assert len(odd) == 2


def test_the_calibration_errors_that_the_paper_copied_are_those_of_the_row_above():
    columns, _ = REMARKS["msls", "resnet50", "Bayes vMF"]
    assert columns == COLUMNS[6:]
    copied, source = (paper_tables()["msls", "resnet50", row] for row in ("Bayes vMF", "TripReg"))
    assert [copied[column] for column in columns] == [source[column] for column in columns]


def test_every_row_of_the_paper_is_one_of_ours():
    assert {row for _, _, row in paper_tables()} == {row.paper for row in ROWS if row.paper}
