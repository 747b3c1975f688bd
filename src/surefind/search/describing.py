"""From the nearest rows to hits: distances, how sure they are, and how likely to be nearest."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.engines.engine import Engine, Rows
from surefind.functional import hit_match_probability, nearest_probability
from surefind.functional.hits import HitDistances
from surefind.functional.nearest import MOST_HITS
from surefind.search.confidence.calibrated import Calibrated
from surefind.search.confidence.calibration import Judged
from surefind.search.evidence.seeing import distances_to
from surefind.search.evidence.seen import NEIGHBOURS
from surefind.search.hits import Hit, SearchResult
from surefind.search.nearest import Nearest
from surefind.search.question import Question

TOO_FEW = f"fewer than {NEIGHBOURS} images were found, too few to judge a hit by its neighbours"


class _Described(NamedTuple):
    """Of one query."""

    hits: tuple[Hit, ...] = ()
    verdict: dict[str, Any] = {}  # noqa: RUF012 - never changed


def describe_hits(
    engine: Engine,
    query: Embeddings,
    near: Nearest,
    *,
    names: Sequence[str],
    question: Question,
    calibrated: Calibrated | None = None,
    inside: bool = False,
) -> list[SearchResult]:
    """One result per query, with everything that is known about each hit.

    For a calibrated answer there are more rows than hits: the neighbours of the query. Queries
    that are `inside` the gallery are judged as if they were not.
    """
    query = query.detach().to("cpu").to(torch.float32)
    found = near.found
    nothing = {} if calibrated is None else {"uncalibrated": TOO_FEW}
    described = [_Described((), nothing)] * len(query)
    for count in np.unique(found[found > 0]).tolist():
        rows = np.flatnonzero(found == count)
        some = near.at((rows, slice(count)))
        of_these = _describe(
            engine, query[rows.tolist()], some, question, calibrated=calibrated, inside=inside
        )
        for row, its in zip(rows, of_these, strict=True):
            described[row] = its
    var = engine.space.var(query)
    return [
        SearchResult(
            query=name, hits=its.hits, query_var=float(v), ranking=question.ranking, **its.verdict
        )
        for name, its, v in zip(names, described, var, strict=True)
    ]


def _describe(
    engine: Engine,
    query: Embeddings,
    near: Nearest,
    question: Question,
    *,
    calibrated: Calibrated | None,
    inside: bool,
) -> list[_Described]:
    """Of queries that all found as many."""
    hits = min(int(question.k), near.keys.shape[1])
    first = near.at((slice(None), slice(hits)))
    keys, places = np.unique(first.keys, return_inverse=True)  # queries share hits
    distances = distances_to(engine.space, query, near)
    numbers = _numbers(engine, query, first, distances, question.radius)
    judged = None
    if calibrated is not None and near.keys.shape[1] >= NEIGHBOURS:
        judged = calibrated.judge(engine, query, near, distances=distances, inside=inside)
        numbers["confidence"] = _padded(judged.confidence, hits)
    made = _rows_to_hits(engine.rows(keys), places.reshape(-1).tolist(), numbers)
    verdicts = _verdicts(judged, len(query), calibrated)
    return [
        _Described(tuple(made[row * hits : (row + 1) * hits]), verdict)
        for row, verdict in enumerate(verdicts)
    ]


def _numbers(
    engine: Engine,
    query: Embeddings,
    near: Nearest,
    distances: HitDistances,
    radius: float | None,
) -> dict[str, list[Any]]:
    """Columns of hits, query by query."""
    per_query = near.keys.shape[1]
    gallery = engine.space.embeddings(
        near.vectors.reshape(-1, engine.space.width), near.var.reshape(-1)
    )
    columns = {
        "distance": distances.distance[:, :per_query],
        "expected_distance": distances.expected[:, :per_query],
        "std": distances.std[:, :per_query],
        "p_nearest": _shares(query, gallery, per_query),
    }
    if radius is not None:
        columns["p_within"] = hit_match_probability(query, gallery, radius, per_query=per_query)
    numbers = {name: column.flatten().tolist() for name, column in columns.items()}
    numbers["var"] = near.var.reshape(-1).tolist()
    return numbers


def _padded(confidence: np.ndarray[Any, np.dtype[np.float64]], hits: int) -> list[float | None]:
    """Only the first hits were calibrated; those farther down have no confidence."""
    return [
        float(row[place]) if place < len(row) else None
        for row in confidence
        for place in range(hits)
    ]


def _verdicts(
    judged: Judged | None, queries: int, calibrated: Calibrated | None
) -> list[dict[str, Any]]:
    if judged is None:
        return [{} if calibrated is None else {"uncalibrated": TOO_FEW}] * queries
    return [
        {
            "confidence": float(judged.confidence[row, 0]),
            "verdict": judged.verdict[row],
            "novelty_p_value": float(judged.belongs[row]),
            "show": int(judged.show[row]),
        }
        for row in range(queries)
    ]


def _shares(query: Embeddings, gallery: Embeddings, per_query: int) -> Tensor:
    """The chances of being nearest; hits so far down that there are too many have none."""
    if per_query <= MOST_HITS:
        return nearest_probability(query, gallery, per_query=per_query)
    first = torch.arange(len(gallery)).reshape(-1, per_query)[:, :MOST_HITS]
    shares = nearest_probability(query, gallery[first.flatten()], per_query=MOST_HITS)
    return torch.nn.functional.pad(shares, (0, per_query - MOST_HITS))


def _rows_to_hits(rows: Rows, places: list[int], numbers: dict[str, list[Any]]) -> list[Hit]:
    hits = []
    for number, place in enumerate(places):
        metadata = rows.metadata[place]
        path = metadata.get("path")
        hits.append(
            Hit(
                id=rows.ids[place],
                path=None if path is None else str(path),
                metadata=metadata,
                **{column: values[number] for column, values in numbers.items()},
            )
        )
    return hits
