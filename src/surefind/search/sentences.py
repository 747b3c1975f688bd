"""What a calibration guarantees and what a verdict means, in plain sentences."""

from surefind.confidence.calibration import Calibration, Quality
from surefind.confidence.conformal import MATCH, NO_MATCH, PredictionSetRule
from surefind.confidence.guarantee import PrecisionGuarantee
from surefind.search.hits import SearchResult

GALLERY_CHANGE = 0.25  # of its size: then a calibration is out of date


def made_with(calibration: Calibration) -> str:
    """When, and with what."""
    origin = calibration.origin
    return (
        f"{origin.created[:10]}, {origin.queries:,} queries of {origin.classes:,} classes "
        f"({origin.source})"
    )


def copies_left_out(calibration: Calibration) -> str | None:
    """How many images are copies of a query, if any."""
    copies = calibration.origin.copies
    if not copies:
        return None
    are = "image that is a copy" if copies == 1 else "images that are copies"
    return f"Left out: {copies:,} {are} of a query, by content or by an equal vector."


def guaranteed(guarantee: PrecisionGuarantee) -> str:
    """The precision that holds, or why none does."""
    if guarantee.threshold is None:
        most = "no lower precision can be guaranteed either"
        if guarantee.best:
            most = f"the most that can be guaranteed is about {guarantee.best:g}"
        more = "more queries like these would hardly do: the surest hits are too often wrong"
        if guarantee.enough is not None:
            more = f"about {guarantee.enough:,} queries would do"
        return (
            f"Cannot guarantee {guarantee.precision:g} with {guarantee.queries:,} queries of "
            f"{guarantee.groups:,} classes: {most}; {more}. "
            "Confidence is shown, but nothing is called a match."
        )
    among = "" if guarantee.ahead is None else f" among the next {guarantee.ahead:,} queries"
    return (
        f"Of what is called a match{among}, at least {asked(guarantee.precision)} is right, with "
        f"probability {asked(guarantee.probability)}: confidence from {sure(guarantee.threshold)}, "
        f"which answers {measured(guarantee.coverage)} of the queries."
    )


def shown(showing: PredictionSetRule) -> str:
    """How many hits it takes to show a match as often as was asked."""
    if showing.level is None:
        return (
            f"Even all {showing.most} hits cannot be sure to hold a match in "
            f"{asked(1 - showing.miss)} of queries: these allow a miss of "
            f"{measured(showing.reached)} at the least; ask for that, or label more classes."
        )
    return (
        f"A match is among the hits to look at in at least {asked(1 - showing.miss)} of queries, "
        f"on average over classes: {showing.mean_size:.1f} of {showing.most} hits in the mean."
    )


def no_match_rule(calibration: Calibration) -> str:
    """What is called foreign; nothing is where too few queries belong to the gallery."""
    rate, known = calibration.novelty_level, calibration.novelty.queries
    if not rate:
        return "Nothing is called foreign: no query that belongs here may be called so."
    if rate * (known + 1) < 1:
        return (
            f"Nothing is called foreign: {known:,} queries that belong here are too few to say "
            f"what {asked(rate)} of them is."
        )
    return f"Of the queries that belong here, at most {asked(rate)} is called foreign."


def found_quality(quality: Quality) -> str:
    """How well the confidence does on classes it was not fitted to, beside distances."""
    return (
        f"AUROC of a wrong first hit {digits(quality.auroc)} (nearest distance "
        f"{digits(quality.baseline_auroc)}, d₁/d₂₀ {digits(quality.ratio_auroc)}); "
        f"ECE {digits(quality.ece)} (of a perfect model {digits(quality.floor)})"
    )


def gallery_change(calibration: Calibration, images: int) -> str | None:
    """A warning once the gallery is not the one that was calibrated any more."""
    then = calibration.origin.gallery
    change = images / then - 1
    if abs(change) <= GALLERY_CHANGE:
        return None
    return (
        f"the gallery has {images:,} images and had {then:,} when calibrated ({change:+.0%}): "
        "calibrate again"
    )


def meaning(result: SearchResult, calibration: Calibration | None = None) -> str:
    """What the verdict says of the query, after the word itself."""
    if result.verdict == NO_MATCH:
        rarely = measured(result.novelty_p_value or 0.0)
        return f"stranger than all but {rarely} of the queries that belong here"
    if result.verdict == MATCH:
        return "the first hit is sure enough to be called one"
    if calibration is not None and calibration.guarantee.threshold is None:
        return "no precision could be guaranteed, so nothing is called a match"
    begins = "" if calibration is None else f" ({sure(calibration.guarantee.threshold)} is)"
    return f"the first hit is not sure enough to be called a match{begins}"


def confidence_of(result: SearchResult) -> str:
    """Of the first hit; that of a foreign query was learned from others."""
    belonging = ", if the query did belong here" if result.verdict == NO_MATCH else ""
    return f"confidence {sure(result.confidence)} that the first hit is a match{belonging}"


def how_many_to_look_at(result: SearchResult, calibration: Calibration | None) -> str | None:
    """Where more than the first hit is worth a look, how many are."""
    if calibration is None or calibration.showing.level is None:
        return None
    if result.show is None or result.show < 2 or result.verdict == NO_MATCH:
        return None
    often = asked(1 - calibration.showing.miss)
    more = ", more than are listed" if result.show > len(result.hits) else ""
    return (
        f"look at the first {result.show} hits{more}: a match is among so many "
        f"in at least {often} of queries"
    )


def sure(confidence: float | None) -> str:
    """Never as if it were certain.

    >>> sure(0.25), sure(0.9999), sure(None)
    ('0.250', '>0.999', '')
    """
    if confidence is None:
        return ""
    if confidence < 0.0005:
        return "<0.001"
    return ">0.999" if confidence >= 0.9995 else f"{confidence:.3f}"


def digits(value: float | None) -> str:
    """Three, or a dash for what is not known.

    >>> digits(0.8), digits(None)
    ('0.800', '-')
    """
    return "-" if value is None else f"{value:.3f}"


def asked(share: float) -> str:
    """A share that was asked for, as it was asked for.

    >>> asked(0.9), asked(0.9995), asked(1 - 0.1)
    ('90 %', '99.95 %', '90 %')
    """
    return f"{100 * share:g} %"


def measured(share: float) -> str:
    """Two digits.

    >>> measured(0.412), measured(0.0031), measured(0.999)
    ('41 %', '0.31 %', '99.9 %')
    """
    percent = 100 * share
    return f"{percent:.2g} %" if percent < 99 else f"{percent:.3g} %"
