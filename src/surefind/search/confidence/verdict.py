"""What a query comes to: a match, nothing sure, or something that does not belong here."""

import numpy as np

from surefind.search.confidence.evidence import Numbers

MATCH, UNSURE, FOREIGN = "match", "unsure", "foreign"
VERDICTS = (MATCH, UNSURE, FOREIGN)


def verdicts(
    confidence: Numbers, belongs: Numbers, *, threshold: float | None, foreign_rate: float
) -> list[str]:
    """One per query, from the confidence of its first hit and the p-value of belonging here.

    A query is foreign when fewer than `foreign_rate` of the queries that belong are as strange.
    Without a threshold nothing is promised, so nothing is called a match.
    """
    sure = confidence >= (np.inf if threshold is None else threshold)
    foreign = belongs <= foreign_rate
    return np.where(foreign, FOREIGN, np.where(sure, MATCH, UNSURE)).tolist()  # type: ignore[no-any-return]
