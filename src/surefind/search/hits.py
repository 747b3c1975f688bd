"""Results of a search."""

from dataclasses import dataclass, field
from typing import Any

from surefind.embeddings import Embeddings
from surefind.engines.filters import Metadata


@dataclass(frozen=True)
class IndexedItem:
    """Image of an index."""

    id: str
    metadata: Metadata
    embedding: Embeddings  # of one row
    digest: str  # sha256 of its content; "" if unknown


@dataclass(frozen=True)
class Hit:
    """Image found by a search. Distances are squared."""

    id: str
    path: str | None  # its file when it was indexed
    distance: float  # of the means
    expected_distance: float
    std: float  # standard deviation of that distance
    var: float  # variance of the hit; 1/kappa on the sphere
    metadata: Metadata
    label: str | None = None
    p_within: float | None = None  # probability that it is within the requested radius
    confidence: float | None = None  # probability that it is a match; None if unknown

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "metadata": dict(self.metadata)}


@dataclass(frozen=True)
class SearchResult:
    """Answer to one query: hits, and if the index is calibrated a verdict and labels."""

    query: str  # path or name of the query
    hits: tuple[Hit, ...]
    query_var: float  # variance of the query
    ranking: str  # order of the hits: confidence, mean or expected
    reranked: bool = False  # candidates of the native ranking, re-ordered
    confidence: float | None = None  # probability that the first hit is a match
    verdict: str | None = None  # match, unsure or no_match; None if there is no confidence
    guaranteed: bool = False  # whether the precision of `match` is guaranteed for this search
    label: str | None = None  # the most probable one; None if the index has no labels
    label_confidence: float | None = None  # its probability
    labels: dict[str, float] = field(default_factory=dict)  # most probable first; the rest: none
    label_set: tuple[str, ...] = ()  # the right one is among these, as often as calibrated
    novelty_p_value: float | None = None  # share of genuine queries that are at least as novel
    show: int | None = None  # number of hits to show so that a match is among them
    uncalibrated: str | None = None  # why there is no confidence

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "hits": [hit.as_dict() for hit in self.hits]}
