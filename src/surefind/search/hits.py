"""Results of a search."""

from dataclasses import dataclass
from typing import Any

from surefind.engines.where import Metadata


@dataclass(frozen=True)
class Hit:
    """Image found by a search. Distances are squared.

    Attributes:
        id: Id of the image in the index.
        path: Its file when it was indexed.
        distance: Distance of the means.
        expected_distance: Expected distance of query and hit.
        std: Standard deviation of that distance.
        var: Variance of the hit; 1/kappa on the sphere.
        metadata: Metadata of the image.
        p_within: Probability that it is within the requested radius.
        confidence: Probability that it is a match; None if the index is not calibrated.
    """

    id: str
    path: str | None
    distance: float
    expected_distance: float
    std: float
    var: float
    metadata: Metadata
    p_within: float | None = None
    confidence: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "metadata": dict(self.metadata)}


@dataclass(frozen=True)
class SearchResult:
    """Hits of one query, nearest first.

    Attributes:
        query: Path or name of the query.
        hits: The hits.
        query_var: Variance of the query.
        ranking: mean or expected.
        reranked: Candidates of the index's own ranking were re-ordered by the other one.
        confidence: Probability that the first hit is a match.
        verdict: match, unsure or no_match; None if there is no confidence.
        novelty_p_value: Share of genuine queries that are at least as novel.
        show: Number of hits to show so that a match is among them.
        uncalibrated: Why there is no confidence.
    """

    query: str
    hits: tuple[Hit, ...]
    query_var: float
    ranking: str
    reranked: bool = False
    confidence: float | None = None
    verdict: str | None = None
    novelty_p_value: float | None = None
    show: int | None = None
    uncalibrated: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "hits": [hit.as_dict() for hit in self.hits]}
