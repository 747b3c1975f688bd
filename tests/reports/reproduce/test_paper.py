"""The paper's tables are typed as they are printed."""

import pytest

from surefind.reports.reproduce.paper import _TABLES, COLUMNS, REMARKS, paper_figures, paper_remarks
from surefind.reports.reproduce.plan import ROWS

ROWS_OF_TABLES = [
    (dataset, backbone, row) for (dataset, backbone), table in _TABLES.items() for row in table
]


# R@1, R@5, R@10, M@1, M@5, M@10, ECE@1, ECE@5, ECE@10, as tables 1 to 3 of the paper print them.
PRINTED = """
cub200 resnet50
Triplet             0.648 0.864 0.917 0.648 0.505 0.440
TripReg             0.643 0.863 0.916 0.643 0.503 0.437 0.196 0.331 0.397
Bayes vMF           0.635 0.855 0.911 0.635 0.492 0.426 0.138 0.064 0.089
Bayes Triplet       0.612 0.842 0.902 0.612 0.467 0.397 0.119 0.037 0.099
Bayes Triplet (Exp) 0.632 0.857 0.912 0.630 0.489 0.424 0.137 0.020 0.072
cub200 densenet161
Triplet             0.717 0.894 0.935 0.717 0.598 0.537
Triplet (MC=50)     0.349 0.591 0.700 0.349 0.200 0.143 0.290 0.428 0.480
TripReg             0.711 0.897 0.939 0.711 0.587 0.524 0.181 0.302 0.363
Bayes vMF           0.713 0.898 0.938 0.713 0.590 0.528 0.022 0.139 0.200
Bayes Triplet       0.683 0.879 0.926 0.683 0.564 0.502 0.176 0.059 0.023
Bayes Triplet (Exp) 0.617 0.838 0.902 0.617 0.494 0.437 0.101 0.025 0.075
cars196 resnet50
Triplet             0.451 0.723 0.813 0.451 0.255 0.179
TripReg             0.447 0.712 0.813 0.447 0.254 0.178 0.292 0.479 0.555
Bayes vMF           0.471 0.733 0.827 0.471 0.270 0.191 0.117 0.162 0.225
Bayes Triplet       0.431 0.696 0.795 0.431 0.235 0.163 0.094 0.271 0.343
cars196 densenet161
Triplet             0.495 0.751 0.837 0.495 0.293 0.212
Triplet (MC=50)     0.470 0.717 0.813 0.470 0.269 0.191 0.178 0.367 0.438
TripReg             0.481 0.744 0.836 0.481 0.285 0.205 0.263 0.456 0.536
Bayes vMF           0.478 0.740 0.834 0.474 0.284 0.204 0.160 0.288 0.355
Bayes Triplet       0.467 0.724 0.814 0.467 0.269 0.192 0.101 0.134 0.208
msls resnet50
Triplet             0.350 0.495 0.554 0.350 0.235 0.210
TripReg             0.349 0.499 0.551 0.349 0.238 0.215 0.482 0.571 0.593
Bayes vMF           0.349 0.494 0.559 0.349 0.249 0.226 0.482 0.571 0.593
Bayes Triplet       0.354 0.489 0.549 0.354 0.241 0.218 0.208 0.319 0.341
msls densenet161
Triplet             0.386 0.531 0.583 0.386 0.270 0.246
Triplet (MC=50)     0.282 0.412 0.458 0.282 0.188 0.163 0.540 0.625 0.648
TripReg             0.386 0.529 0.596 0.386 0.268 0.245 0.424 0.543 0.566
Bayes vMF           0.383 0.526 0.588 0.383 0.268 0.245 0.227 0.327 0.350
Bayes Triplet       0.364 0.506 0.571 0.364 0.252 0.228 0.196 0.264 0.283
"""


def printed() -> dict[tuple[str, str, str], list[float]]:
    tables, where = {}, ("", "")
    for line in PRINTED.strip().splitlines():
        row, figures = line[:20].strip(), [float(figure) for figure in line[20:].split()]
        if figures:
            tables[(*where, row)] = figures
        else:
            dataset, backbone = line.split()
            where = dataset, backbone
    return tables


def test_every_figure_is_the_printed_one():
    assert sum(map(len, printed().values())) == 243
    for where, figures in printed().items():
        assert list(paper_figures(*where).values()) == figures, where
    assert set(printed()) == set(ROWS_OF_TABLES)


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
