"""A calibration on a terminal: what it was made with, how good it is, what it promises."""

import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from surefind.cli.calibration_request import Checked
from surefind.cli.voice import remark
from surefind.search.confidence.calibration import Calibration
from surefind.search.confidence.quality import Quality
from surefind.search.printable import printable
from surefind.search.sentences import (
    copies_left_out,
    digits,
    foreign_rule,
    made_with,
    measured,
    promised,
    shown,
)

LISTED = 5  # ways in which queries have changed


def print_calibration(folder: Path, calibration: Calibration) -> None:
    """Facts first, then what follows from them; what weakens it goes to stderr."""
    quality, origin = calibration.quality, calibration.origin
    print(printable(f"{folder}, {origin.gallery:,} images: calibrated {made_with(calibration)}"))
    if copies := copies_left_out(calibration):
        print(copies)
    print(f"{measured(quality.right)} of their first hits are right\n")
    Console().print(_table(quality))
    print("each query judged by a fit to other classes, both calibrated in the same way;")
    print("AUROC: mean within the folds; ECE: debiased, and what a perfect model would show\n")
    print(promised(calibration.promise))
    print(shown(calibration.showing))
    print(foreign_rule(calibration))
    for weakness in origin.remarks:
        remark(f"warning: {weakness}")


def print_check(checked: Checked) -> None:
    """Whether a promise can be relied on for these queries."""
    for bad in checked.rejected:
        print(printable(f"{bad.path}: {bad.reason}"), file=sys.stderr)
    if not checked.shifts:
        print(f"these {checked.queries:,} queries look like those of the calibration")
        return
    print(f"these {checked.queries:,} queries are unlike those of the calibration:")
    for shift in checked.shifts[:LISTED]:
        print(f"  {printable(shift.message)}")
    if len(checked.shifts) > LISTED:
        print(f"  and {len(checked.shifts) - LISTED} more, less so (all with --json)")
    print("the promise may not hold for them: calibrate with some of them")


def _table(quality: Quality) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("is the first hit a match?")
    for name in ("confidence", "nearest distance", "d₁/d₂₀"):
        table.add_column(name, justify="right")
    rows = {
        "AUROC of a wrong first hit": (
            quality.auroc, quality.baseline_auroc, quality.ratio_auroc,
        ),
        "ECE, lower is better": (quality.ece, quality.baseline_ece, None),
        "  of a perfect model": (quality.floor, quality.baseline_floor, None),
        "Brier, lower is better": (quality.brier, quality.baseline_brier, None),
    }  # fmt: skip
    for name, values in rows.items():
        table.add_row(name, *(digits(value) for value in values))
    return table
