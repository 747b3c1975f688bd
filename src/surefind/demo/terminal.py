"""The result of the demo for people; nothing is printed here."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from rich import box
from rich.table import Table
from rich.text import Text

from surefind.demo.questions import Question
from surefind.demo.table import Row


def question_title(question: Question) -> Text:
    return Text.assemble((question.kind, "bold"), f": {question.about}")


def comparison_table(rows: Sequence[Row], *, precision: float) -> Table:
    """A line for each quantity, below the name of its encoder."""
    table = Table(
        title="Who knows when the first hit is wrong?",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("")
    for name in (
        "right first\nhits (R@1)",
        "knows when\nwrong (AUROC)",
        "calibration\nerror (perfect)",
        f"answered\nat {100 * precision:g} %",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for encoder, its in groupby(rows, key=attrgetter("encoder")):
        table.add_row(f"{encoder}")
        for row in its:
            table.add_row(
                f"  {row.told_by}",
                _percent(row.recall, digits=1),
                f"{row.auroc:.3f}",
                "-" if row.ece is None else f"{row.ece:.3f} ({row.floor:.3f})",
                _percent(row.answered),
            )
    return table


def _percent(share: float, *, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"
