"""Results of a search."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from surefind.embeddings import Embeddings
from surefind.engines.filters import Metadata
from surefind.errors import SurefindError
from surefind.text import Summary, html_table

SHOWN = ("id", "label", "confidence", "distance")  # of a hit


@dataclass(frozen=True, repr=False)
class IndexedItem(Summary):
    """Image of an index."""

    id: str
    metadata: Metadata
    embedding: Embeddings  # of one row
    digest: str  # sha256 of its content; "" if unknown

    def _facts(self) -> dict[str, object]:
        return {"id": self.id, **self.metadata}


@dataclass(frozen=True, repr=False)
class Hit(Summary):
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

    def _facts(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in SHOWN if getattr(self, name) is not None}


@dataclass(frozen=True, repr=False)
class SearchResult(Summary):
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
    variant: str = ""  # of the searches that its calibration is for; "" for plain ones

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "hits": [hit.as_dict() for hit in self.hits]}

    def to_pandas(self) -> Any:
        """Return the hits as a DataFrame, as `results_to_pandas` does."""
        return results_to_pandas([self])

    def _facts(self) -> dict[str, object]:
        facts = {name: getattr(self, name) for name in ("query", "verdict", "confidence", "label")}
        first = {"first": self.hits[0].id} if self.hits else {}
        known = {name: value for name, value in facts.items() if value is not None}
        return {**known, "hits": len(self.hits), **first}

    def _repr_html_(self) -> str:
        rows = [[getattr(hit, name) for name in SHOWN] for hit in self.hits[:10]]
        return super()._repr_html_() + html_table([SHOWN, *rows])


COLUMNS = (
    "query", "verdict", "rank", "id", "label", "confidence", "distance", "expected_distance", "std",
    "var", "path",
)  # fmt: skip


def results_to_pandas(results: Iterable[SearchResult]) -> Any:
    """Return the hits of several results as one DataFrame: one row per hit, in order.

    Args:
        results: As `Index.search` gives them.

    Returns:
        A DataFrame with the query, its verdict, rank and values of the hit, and its metadata, one
        column per field.

    Raises:
        SurefindError: If pandas is not installed.
    """
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise SurefindError("a DataFrame needs pandas", fix="pip install pandas") from error
    rows: list[dict[str, Any]] = [
        {
            **hit.metadata,
            **{name: getattr(hit, name) for name in COLUMNS[3:]},
            "query": result.query,
            "verdict": result.verdict,
            "rank": rank,
        }
        for result in results
        for rank, hit in enumerate(result.hits, start=1)
    ]
    columns = dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)])
    return pandas.DataFrame(rows, columns=[*columns])
