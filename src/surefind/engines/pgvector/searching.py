"""The nearest rows, as PostgreSQL finds them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.engines.engine import Found
from surefind.engines.pgvector.conditions import Clause
from surefind.engines.pgvector.connections import Connections
from surefind.engines.pgvector.driver import SQL, Composed, from_sent, to_sent
from surefind.engines.pgvector.tables import named
from surefind.engines.pgvector.url import Place
from surefind.engines.pgvector.vector_index import VectorIndex, probes_for

NUMBERS_AT_ONCE = 2**24  # of an answer: 64 MB
QUERIES_AT_ONCE = 256

# All queries of a block in one statement, and vectors only of what was found: 1.4 times as quick
# as a statement for each query, and three times when k is large.
NEAREST = SQL("""
SELECT found.query, found.distance, kept.key, kept.var, kept.vector
FROM (
    SELECT asked.query, nearest.key, nearest.distance
    FROM unnest(%(vectors)b::vector[]) WITH ORDINALITY AS asked (vector, query)
    CROSS JOIN LATERAL (
        SELECT key, gallery.vector <-> asked.vector AS distance
        FROM {table} AS gallery WHERE {where} ORDER BY {order} LIMIT %(k)s::bigint
    ) AS nearest
) AS found JOIN {table} AS kept USING (key)
""")
BY_INDEX = SQL("gallery.vector <-> asked.vector").format()
BY_LOOKING_AT_ALL = SQL("(gallery.vector <-> asked.vector) + 0").format()  # no index has this
SETTINGS = """
SELECT set_config('jit', 'off', true),
    set_config('hnsw.ef_search', %(effort)s, true),
    set_config('hnsw.iterative_scan', 'strict_order', true),
    set_config('ivfflat.probes', %(probes)s, true),
    set_config('ivfflat.iterative_scan', 'relaxed_order', true)
"""


Hits = NDArray[np.void]  # (n,) of what `_layout` says, for all queries, in no order


def search(
    connections: Connections,
    vectors: NDArray[np.float32],
    *,
    k: int,
    clause: Clause,
    index: VectorIndex | None,
) -> Found:
    """Queries that the index leaves with fewer than k are asked again without it."""
    queries = np.arange(len(vectors))
    hits = _hits(connections, vectors, queries, k=k, clause=clause, index=index)
    if index is not None:
        enough = np.bincount(hits["query"], minlength=len(vectors)) >= k
        if not enough.all():
            missing = queries[~enough]
            again = _hits(connections, vectors, missing, k=k, clause=clause, index=None)
            hits = np.concatenate([hits[enough[hits["query"]]], again])
    return _found(hits, len(vectors))


def _hits(
    connections: Connections,
    vectors: NDArray[np.float32],
    queries: NDArray[np.int64],
    *,
    k: int,
    clause: Clause,
    index: VectorIndex | None,
) -> Hits:
    """For these queries among the vectors."""
    statement = nearest(connections.place, clause, index)
    effort = {
        "effort": str(min(1000, max(200, 2 * k))),
        "probes": str(probes_for(index.lists) if index else 1),
    }
    width = vectors.shape[1]
    size = max(1, min(QUERIES_AT_ONCE, NUMBERS_AT_ONCE // (k * width)))
    blocks = [np.empty(0, _layout(width))]
    for start in range(0, len(queries), size):
        chosen = queries[start : start + size]
        asked = {"vectors": to_sent(vectors[chosen]), "k": k, **clause.parameters}
        with connections.transaction() as connection, connection.cursor(binary=True) as cursor:
            connection.execute(SETTINGS, effort)
            hits = _received(cursor.execute(statement, asked).fetchall(), width)
        hits["query"] = chosen[hits["query"] - 1]
        blocks.append(hits)
    return np.concatenate(blocks)


def nearest(place: Place, clause: Clause, index: VectorIndex | None) -> Composed:
    """The statement, with parameters `vectors`, `k` and those of the clause."""
    order = BY_LOOKING_AT_ALL if index is None else BY_INDEX
    return named(NEAREST, place, where=clause.text, order=order)


def _layout(width: int) -> np.dtype[np.void]:
    numbers = [("query", "i8"), ("distance", "f8"), ("key", "i8"), ("var", "f8")]
    return np.dtype([*numbers, ("vector", "f4", (width,))])


def _received(rows: list[tuple[Any, ...]], width: int) -> Hits:
    hits = np.empty(len(rows), _layout(width))
    if rows:
        hits["query"], distance, hits["key"], hits["var"], vectors = zip(*rows, strict=True)
        hits["distance"] = np.square(distance)
        hits["vector"] = from_sent(vectors, width)
    return hits


def _found(hits: Hits, queries: int) -> Found:
    """As rectangles: the columns that the longest answer needs."""
    counts = np.bincount(hits["query"], minlength=queries)
    columns = int(counts.max(initial=0))
    order = np.lexsort((hits["key"], hits["distance"], hits["query"]))
    row = hits["query"][order]
    place = row, np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    found = np.zeros((queries, columns), hits.dtype)
    found["distance"], found["var"] = np.inf, 1
    found[place] = hits[order]
    return Found(
        np.ascontiguousarray(found["key"]),
        found["distance"].astype(np.float32),
        np.ascontiguousarray(found["vector"]),
        np.ascontiguousarray(found["var"]),
    )
