"""The paper's tables of retrieval and calibration, as printed, and what is wrong with them.

Warburg et al. 2021, "Bayesian Triplet Loss", tables 1 to 3 (paper.csv): R is recall, M mean average
precision, ECE the expected calibration error of the query variance. "Bayes Triplet" is the loss
with Gaussians.
"""

import csv
from functools import cache
from pathlib import Path

COLUMNS = ("R@1", "R@5", "R@10", "M@1", "M@5", "M@10", "ECE@1", "ECE@5", "ECE@10")
TITLES = {"cub200": "CUB-200-2011", "cars196": "Cars-196", "msls": "MSLS"}
BACKBONES = {"resnet50": "ResNet-50", "densenet161": "DenseNet-161"}
TRAINED_ON = {"cars196": "cub200"}  # table 2 tests the models of table 1; others test their own
TEST_QUERIES = {"cub200": 5924, "cars196": 8131}  # of MSLS the paper does not say

_ONE_QUANTITY = "R@1 and M@1 are one quantity; the paper prints two figures."
_COPIED = "The three figures are those of TripReg, so probably copied by mistake."
REMARKS = {  # footnotes to some columns of a row
    ("cub200", "resnet50", "Bayes Triplet (Exp)"): (("R@1", "M@1"), _ONE_QUANTITY),
    ("cars196", "densenet161", "Bayes vMF"): (("R@1", "M@1"), _ONE_QUANTITY),
    ("msls", "resnet50", "Bayes vMF"): (("ECE@1", "ECE@5", "ECE@10"), _COPIED),
}
ABOUT_ALL = (
    "The paper never gives its margin; ours is 0 for the Bayesian losses and 0.2 for the triplet "
    "losses, unless the recipe says otherwise.",
    "ECE has bins of equal width over the range of the query variance, the definition that the "
    "paper's tables agree with; its text describes bins of equal count.",
)
ABOUT = {
    "cars196": "As in the paper, no model of this table was trained on cars: those trained on "
    "birds (CUB-200, classes 1 to 100) are tested on cars (classes 99 to 196).",
    "msls": "The paper tests on six cities whose positions are not in the public release, which "
    "leaves the two validation cities to us.",
}


@cache
def paper_tables() -> dict[tuple[str, str, str], dict[str, float]]:
    """Return the printed figures by column, for each data set, backbone and row of the paper.

    >>> paper_tables()["cub200", "resnet50", "Triplet"]["R@1"]
    0.648
    """
    with (Path(__file__).parent / "paper.csv").open(newline="") as file:
        return {
            (line["dataset"], line["backbone"], line["row"]): {
                column: float(line[column]) for column in COLUMNS if line[column]
            }
            for line in csv.DictReader(file)
        }
