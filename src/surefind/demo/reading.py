"""How to read the table, in sentences that follow from its figures."""

from surefind.demo.table import Row
from surefind.metrics.bootstrap import Estimate


def how_to_read(queries: int, classes: int, *, precision: float) -> str:
    """What the columns mean."""
    return (
        f"Each of {queries:,} glyphs, of {classes} classes that no encoder was trained with, "
        "searches the others; whatever judges a glyph was fitted to other classes. AUROC: 0.5 is "
        "guessing, 1 is to know every wrong first hit. Calibration error: debiased; beside it that "
        "of a perfect model with as many queries. Answered: the share of queries that can be "
        f"answered when {100 * precision:g} % of the answers are to be right. Distances and their "
        "ratio d₁/d₂₀ need no training."
    )


def compared(first: Row, second: Row, ahead: Estimate) -> str:
    """Whether the first knows better than the second when it is wrong, and how sure that is."""
    how = "no better than"
    if ahead.low > 0:
        how = "better than"
    elif ahead.high < 0:
        how = "worse than"
    return (
        f"{first.encoder}: {first.told_by} (AUROC {first.auroc:.3f}) is {how} the "
        f"{second.told_by} ({second.auroc:.3f}); the difference is {ahead.value:+.3f}, over "
        f"classes {ahead.low:+.3f} to {ahead.high:+.3f}."
    )
