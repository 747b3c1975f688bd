"""The rows of a table: which recipe, how the gallery is ranked, what the paper calls it."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from surefind.validation import check_choice


class Row(NamedTuple):
    """One line of the paper's table, or one of ours."""

    name: str  # on the command line
    title: str
    recipe: str
    paper: str | None  # the paper's name of it
    ranking: Literal["means", "expected"] = "means"
    passes: int | None = None  # with dropout


ROWS = (
    Row("triplet", "Triplet", "triplet", "Triplet"),
    Row("mc-dropout", "Triplet (MC=50)", "mc-dropout", "Triplet (MC=50)", passes=50),
    Row("tripreg", "TripReg", "tripreg", "TripReg"),
    Row("bayes-vmf", "Bayes vMF", "bayes-vmf", "Bayes vMF"),
    Row("bayes-gauss", "Bayes Gauss", "bayes-gauss", "Bayes Triplet"),
    Row(
        "bayes-gauss-exp",  # the model of the row above, ranked by expected distance
        "Bayes Gauss (Exp)",
        "bayes-gauss",
        "Bayes Triplet (Exp)",
        ranking="expected",
    ),
    Row("bayes-vmf-exact", "Bayes vMF, exact moments", "bayes-vmf-exact", None),
    Row("bayes-gauss-unit", "Bayes Gauss, unit means", "bayes-gauss-unit", None),
    Row("bayes-centred", "Bayes centred", "bayes-centred", None),
)


def choose_rows(names: Sequence[str]) -> tuple[Row, ...]:
    """The named rows in the order of the table."""
    for name in names:
        check_choice("rows", name, tuple(row.name for row in ROWS))
    return tuple(row for row in ROWS if row.name in names)
