"""Sentences for people: what a calibration guarantees, and what a verdict means."""

import math
import shlex
from collections.abc import Sequence

from surefind.confidence.calibration import (
    LABELS,
    LEAST_CONFIDENCE,
    NEIGHBOURHOODS,
    PRIOR,
    Calibration,
    Quality,
    is_stale,
)
from surefind.confidence.conformal import MATCH, NO_MATCH
from surefind.confidence.guarantee import PrecisionGuarantee


def made_with(calibration: Calibration) -> str:
    """Date of the calibration, and its labelled queries."""
    origin = calibration.origin
    if origin.evidence == PRIOR:
        return "prior calibration of surefind, not fitted to this index"
    by = "labels of the index" if origin.evidence == LABELS else "neighbourhoods"
    return (
        f"{origin.created[:10]}, {origin.queries:,} queries of {origin.classes:,} classes "
        f"({origin.source}), by {by}" + (f", for searches with {origin.variant}" if origin.variant else "")
    )


def copies_left_out(calibration: Calibration) -> str | None:
    """Number of images that are copies of a query, if any."""
    copies = calibration.origin.copies
    if not copies:
        return None
    are = "image that is a copy" if copies == 1 else "images that are copies"
    return f"Left out: {copies:,} {are} of a query, by content or by an equal vector."


def guaranteed(guarantee: PrecisionGuarantee) -> str:
    """The guaranteed precision and its threshold; else what holds instead, and the remedy."""
    threshold, precision = guarantee.threshold, percent(guarantee.precision)
    least = whole_percent(LEAST_CONFIDENCE)
    if threshold is not None:
        ahead = guarantee.horizon
        among = "" if ahead is None else f" among the next {ahead:,} queries"
        least = f" (a match needs {least})" if threshold < LEAST_CONFIDENCE else ""
        return (
            f"Guarantee ({percent(guarantee.probability)} probability): at least {precision} of "
            f'results called "match"{among} are correct. Threshold: confidence '
            f"{whole_percent(threshold)}{least}; it answers {measured(guarantee.coverage)} of "
            "queries."
        )
    rule = f"from a confidence of {precision if guarantee.precision > LEAST_CONFIDENCE else least}"
    rule = f'a result is called "match" {rule}, without a guarantee.'
    if not guarantee.queries:
        return f"There are no labelled queries of this index, so {rule}"
    ways = []
    if needed := guarantee.queries_needed:
        classes = math.ceil(guarantee.groups * needed / guarantee.queries)
        ways.append(f"label about {classes:,} classes like these ({needed:,} queries)")
    if guarantee.best:
        ways.append(f"calibrate with `--precision {guarantee.best:g}`")
    remedy = "More queries like these would hardly help: too many of the surest hits are wrong"
    if ways:
        remedy = f"To get one, {', or '.join(ways)}"
    return (
        f"A precision of {precision} cannot be guaranteed from {guarantee.queries:,} queries of "
        f"{guarantee.groups:,} classes, so {rule} {remedy}."
    )


def in_short(calibration: Calibration) -> str:
    """Share of queries that are answered, and how many answers are right, as one sentence."""
    curve = zip(calibration.curve.confidence, calibration.curve.right, strict=True)
    reached = [right for sure, right in curve if sure >= calibration.threshold]
    if not reached:
        return "In short: no query like these is answered; check every result yourself."
    share = measured(len(reached) / len(calibration.curve.right))
    return (
        f'In short: {share} of queries like these are answered ("match"), and '
        f"{measured(sum(reached) / len(reached))} of the answers were right; check the rest "
        "yourself."
    )


def shown(calibration: Calibration) -> str:
    """How many hits or labels to show so that a right one is among them often enough."""
    rule = calibration.prediction_set
    what = "hits" if calibration.origin.evidence == NEIGHBOURHOODS else "labels"
    if not rule.queries:
        return f"The {what} to show add up to a probability of {percent(1 - rule.miss_rate)}."
    if rule.level is None:
        possible = math.ceil(100 * rule.smallest_achievable_miss_rate - 1e-9)
        return (
            f"The top {rule.most} {what} contain a match for only {100 - possible} % of queries. "
            f"Use `--miss {possible / 100:g}`, or label more classes."
        )
    return (
        f"The {what} to show contain a match for at least {percent(1 - rule.miss_rate)} of queries "
        f"(averaged over classes): {rule.mean_size:.1f} of {rule.most} {what} on average."
    )


def no_match_rule(calibration: Calibration) -> str:
    """How often a genuine query is flagged as not in the catalogue."""
    level = calibration.novelty_level
    if calibration.novelty is None:
        return "No query is flagged as not in the catalogue: that needs labelled queries."
    known = calibration.novelty.queries
    if not level:
        return "No query is flagged as not in the catalogue: the novelty level is 0."
    if level * (known + 1) < 1:
        return (
            f"No query is flagged as not in the catalogue: {known:,} genuine queries are too few "
            f"for a novelty level of {percent(level)}."
        )
    return f"At most {percent(level)} of genuine queries will be flagged as not in the catalogue."


def found_quality(quality: Quality | None) -> str:
    """Quality of the confidence on held-out classes, beside that of other signals."""
    if quality is None:
        return "not measured"
    vote = "" if quality.vote_auroc is None else f", label vote {digits(quality.vote_auroc)}"
    return (
        f"AUROC of a wrong first hit {digits(quality.auroc)} (nearest distance "
        f"{digits(quality.baseline_auroc)}, d₁/d₂₀ {digits(quality.ratio_auroc)}{vote}); "
        f"ECE {digits(quality.ece)} (of a perfect model {digits(quality.floor)})"
    )


def gallery_change(calibration: Calibration, images: int, *, folder: str = "INDEX") -> str | None:
    """Warning if the size of the gallery changed too much since the calibration."""
    if not is_stale(calibration, images):
        return None
    then = calibration.origin.gallery
    return (
        f"stale: the gallery has {images:,} images and had {then:,} when calibrated; nothing is "
        f"guaranteed now: surefind calibrate {shlex.quote(folder)} --again"
    )


def meaning(verdict: str | None, novelty_p_value: float | None, calibration: Calibration | None = None) -> str:
    """Explanation that follows the verdict."""
    if verdict == NO_MATCH:
        rarely = measured(novelty_p_value or 0.0)
        return f"only {rarely} of genuine queries look as unlike the indexed images"
    threshold = "" if calibration is None else f" ({whole_percent(calibration.threshold)})"
    if calibration is not None and calibration.guarantee.threshold is None:
        threshold += ", which guarantees nothing"
    if verdict == MATCH:
        return f"the confidence reaches the threshold{threshold}"
    return f"the confidence is below the threshold{threshold}"


def answer_of(label: str | None, confidence: float | None, label_set: Sequence[str], verdict: str | None) -> str | None:
    """The label, or the labels that it is one of; None without labels."""
    if label is None or confidence is None or verdict is None:
        return None
    if verdict == NO_MATCH:
        return "none that is known here"
    answer = f"{label}, {whole_percent(confidence)}"
    if verdict == MATCH or len(label_set) < 2:
        return answer
    return f"{answer}; or {', '.join(label_set[1:5])}{', …' if len(label_set) > 5 else ''}"


def confidence_of(verdict: str | None, confidence: float | None) -> str:
    """Confidence of the first hit; for `no_match` it assumes that the query is genuine."""
    condition = ", if the query is in the catalogue" if verdict == NO_MATCH else ""
    return f"confidence {whole_percent(confidence)} that the first hit is a match{condition}"


def how_many_to_look_at(
    verdict: str | None, show: int | None, calibration: Calibration | None, *, listed: int
) -> str | None:
    """Advice to check the first `show` hits, of which `listed` are shown; None for one hit."""
    if calibration is None or calibration.prediction_set.level is None:
        return None
    by_labels = calibration.origin.evidence != NEIGHBOURHOODS  # the set of labels says it
    if by_labels or show is None or show < 2 or verdict == NO_MATCH:
        return None
    often = percent(1 - calibration.prediction_set.miss_rate)
    more = ", more than are listed" if show > listed else ""
    return f"check the first {show} hits{more}: they contain a match for at least {often} of queries"


def digits(value: float | None) -> str:
    """Value with three digits, or a dash if it is unknown.

    >>> digits(0.8), digits(None)
    ('0.800', '-')
    """
    return "-" if value is None else f"{value:.3f}"


def percent(share: float) -> str:
    """Requested share in per cent, with all its digits.

    >>> percent(0.9), percent(0.9995), percent(1 - 0.1)
    ('90 %', '99.95 %', '90 %')
    """
    return f"{100 * share:g} %"


def whole_percent(share: float | None) -> str:
    """Probability in per cent without decimals, never rounded to 0 or 100.

    >>> whole_percent(0.412), whole_percent(0.999), whole_percent(0.001), whole_percent(None)
    ('41 %', '> 99 %', '< 1 %', '')
    """
    if share is None:
        return ""
    if share < 0.005:
        return "< 1 %"
    return "> 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def measured(share: float) -> str:
    """Measured share in per cent, with two digits.

    >>> measured(0.412), measured(0.0031), measured(0.999)
    ('41 %', '0.31 %', '99.9 %')
    """
    return f"{100 * share:.2g} %" if share < 0.99 else f"{100 * share:.3g} %"
