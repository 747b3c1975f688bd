"""What a search returns: hits, each with what is known about its distance."""

from dataclasses import dataclass
from typing import Any

from surefind.engines.filters import Metadata


@dataclass(frozen=True)
class Hit:
    """An image that was found. Distances are squared."""

    id: str
    path: str | None  # of the image when it was indexed
    distance: float  # of the means
    expected_distance: float
    std: float  # how far the true squared distance may be from the expected one
    var: float  # of the found image; 1/kappa on the sphere
    metadata: Metadata
    p_within: float | None = None  # that it is within the radius that was asked for
    confidence: float | None = None  # that it is a match; none until the index is calibrated

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "metadata": dict(self.metadata)}


@dataclass(frozen=True)
class SearchResult:
    """The hits of one query, nearest first."""

    query: str  # its path, or what stands for it
    hits: tuple[Hit, ...]
    query_var: float
    ranking: str  # expected or mean
    reranked: bool = False  # by the other ranking than the index's own: its candidates, re-ordered
    confidence: float | None = None  # that the first hit is a match
    verdict: str | None = None  # match, unsure or foreign; none until the index is calibrated
    novelty_p_value: float | None = None  # how many of those that belong here are as strange
    show: int | None = None  # so many hits hold a match as often as was asked of the calibration
    uncalibrated: str | None = None  # why there is no confidence

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "hits": [hit.as_dict() for hit in self.hits]}
