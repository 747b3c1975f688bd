"""From the nearest rows to hits: distances, how sure they are, and how likely to be nearest."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.engines.engine import Engine, Rows
from surefind.functional import hit_distances, hit_match_probability, nearest_probability
from surefind.functional.nearest import MOST_HITS
from surefind.search.hits import Hit, SearchResult
from surefind.search.nearest import Nearest


def describe_hits(
    engine: Engine,
    query: Embeddings,
    near: Nearest,
    *,
    names: Sequence[str],
    ranking: str,
    radius: float | None = None,
) -> list[SearchResult]:
    """One result per query, with everything that is known about each hit."""
    found = near.found
    hits: list[tuple[Hit, ...]] = [()] * len(query)
    for count in np.unique(found[found > 0]).tolist():
        rows = np.flatnonzero(found == count)
        some = near.at((rows, slice(count)))
        for row, its in zip(rows, _hits(engine, query[rows.tolist()], some, radius), strict=True):
            hits[row] = its
    var = engine.space.var(query)
    return [
        SearchResult(query=name, hits=its, query_var=float(v), ranking=ranking)
        for name, its, v in zip(names, hits, var, strict=True)
    ]


def _hits(
    engine: Engine, query: Embeddings, near: Nearest, radius: float | None
) -> list[tuple[Hit, ...]]:
    """Of queries that all found as many."""
    per_query = near.keys.shape[1]
    keys, place = np.unique(near.keys, return_inverse=True)  # queries share hits
    rows = engine.rows(keys)
    gallery = engine.space.embeddings(
        near.vectors.reshape(-1, engine.space.width), near.var.reshape(-1)
    )
    query = query.detach().to("cpu").to(torch.float32)
    distances = hit_distances(query, gallery, per_query=per_query)
    columns = {
        "distance": distances.distance,
        "expected_distance": distances.expected,
        "std": distances.std,
        "p_nearest": _shares(query, gallery, per_query),
    }
    if radius is not None:
        columns["p_within"] = hit_match_probability(query, gallery, radius, per_query=per_query)
    numbers = {name: column.flatten().tolist() for name, column in columns.items()}
    numbers["var"] = near.var.reshape(-1).tolist()
    hits = _rows_to_hits(rows, place.reshape(-1).tolist(), numbers)
    return [tuple(hits[start : start + per_query]) for start in range(0, len(hits), per_query)]


def _shares(query: Embeddings, gallery: Embeddings, per_query: int) -> Tensor:
    """The chances of being nearest; hits so far down that there are too many have none."""
    if per_query <= MOST_HITS:
        return nearest_probability(query, gallery, per_query=per_query)
    first = torch.arange(len(gallery)).reshape(-1, per_query)[:, :MOST_HITS]
    shares = nearest_probability(query, gallery[first.flatten()], per_query=MOST_HITS)
    return torch.nn.functional.pad(shares, (0, per_query - MOST_HITS))


def _rows_to_hits(rows: Rows, places: list[int], numbers: dict[str, list[float]]) -> list[Hit]:
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
