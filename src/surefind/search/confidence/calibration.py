"""All that a calibrated index knows: how sure a hit is, what is foreign, what is promised."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.search.confidence.conformal import (
    Novelty,
    Showing,
    how_many,
    novelty_values,
    verdicts,
)
from surefind.search.confidence.evidence import Numbers, Seen
from surefind.search.confidence.guarantee import Promise
from surefind.search.confidence.match_model import ConfidenceModel
from surefind.search.confidence.quality import Curve, Quality

FOREIGN_RATE = 0.01  # of the queries that belong here, called foreign


class Judged(NamedTuple):
    """What a calibration says of Q queries with H hits each."""

    confidence: Numbers  # (Q, H)
    belongs: Numbers  # (Q,), p-value
    verdict: list[str]
    show: NDArray[np.int64]  # (Q,), so many hits hold a match with the stated chance


@dataclass(frozen=True)
class Origin:
    """What a calibration was made with, and for."""

    fingerprint: str  # of the model that made the rows
    ranking: str
    created: str
    source: str  # of the labelled queries
    queries: int
    classes: int
    without_match: int  # queries that no image of the gallery matches
    gallery: int  # images that were searched
    copies: int = 0  # images that are copies of a query: neither its hits nor asked again
    remarks: tuple[str, ...] = ()  # what weakens the promise


@dataclass(frozen=True)
class Calibration:
    """Fitted by `fit_calibration`; kept with an index."""

    origin: Origin
    model: ConfidenceModel
    novelty: Novelty
    promise: Promise
    showing: Showing
    quality: Quality
    curve: Curve
    usual: dict[str, tuple[float, ...]]  # quantiles of columns, to see when queries change
    foreign_rate: float = FOREIGN_RATE

    def judge(self, seen: Seen) -> Judged:
        confidence = self.model.confidence(seen)
        belongs = self.novelty.p_value(novelty_values(seen))
        verdict = verdicts(
            confidence[:, 0],
            belongs,
            threshold=self.promise.threshold,
            foreign_rate=self.foreign_rate,
        )
        return Judged(confidence, belongs, verdict, how_many(confidence, self.showing))

    def summary(self) -> dict[str, Any]:
        """For people: what it was made with, what it promises, how good it is."""
        return {
            "origin": asdict(self.origin),
            "promise": asdict(self.promise),
            "showing": asdict(self.showing),
            "quality": asdict(self.quality),
            "foreign_rate": self.foreign_rate,
            "columns": list(self.model.names),
        }
