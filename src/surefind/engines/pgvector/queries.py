"""Statements over the rows of an index: search, write, and conditions as SQL."""

import json
import math
from collections.abc import Iterator
from typing import Any, LiteralString, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import Found, Rows
from surefind.engines.filters import VAR, Condition, Where
from surefind.engines.pgvector.connection import (
    SQL,
    Composable,
    Connections,
    Placeholder,
    from_sent,
    to_sent,
)
from surefind.engines.pgvector.schema import VectorIndex
from surefind.engines.space import Space

NUMBERS_AT_ONCE = 2**21  # of the vectors in one statement that writes or reads: 8 MB
NUMBERS_OF_ANSWER = 2**24  # of the vectors in one answer to a search: 64 MB
QUERIES_AT_ONCE = 256

# All queries of a block in one statement, and vectors only of hits: 1.4 times as fast as one
# statement per query, three times when k is large.
NEAREST: LiteralString = """
SELECT found.query, found.distance, kept.key, kept.var, kept.vector
FROM (
    SELECT asked.query, nearest.key, nearest.distance
    FROM unnest(%(vectors)b::vector[]) WITH ORDINALITY AS asked (vector, query)
    CROSS JOIN LATERAL (
        SELECT key, gallery.vector <-> asked.vector AS distance
        FROM {table} AS gallery WHERE {where} ORDER BY {order} LIMIT %(k)s::bigint
    ) AS nearest
) AS found JOIN {table} AS kept USING (key)
"""
BY_INDEX = SQL("gallery.vector <-> asked.vector")
BY_LOOKING_AT_ALL = SQL("(gallery.vector <-> asked.vector) + 0")  # no index has this
SETTINGS: LiteralString = """
SELECT set_config('jit', 'off', true),
    set_config('hnsw.ef_search', %(effort)s, true),
    set_config('hnsw.iterative_scan', 'strict_order', true),
    set_config('ivfflat.probes', %(probes)s, true),
    set_config('ivfflat.iterative_scan', 'relaxed_order', true)
"""
# Twice as quick as COPY into a temporary table and from there.
PUT: LiteralString = """
WITH put AS (
INSERT INTO {table} (id, vector, var, digest, metadata)
SELECT * FROM unnest(%(ids)b::text[], %(vectors)b::vector[], %(var)b::float8[],
    %(digests)b::text[], %(metadata)b::text[]) AS given (id, vector, var, digest, metadata)
ORDER BY id COLLATE "C"
ON CONFLICT (id) DO UPDATE SET vector = excluded.vector, var = excluded.var,
    digest = excluded.digest, metadata = excluded.metadata
RETURNING xmax = 0 AS new -- a row that was there was locked first
) SELECT count(*) FILTER (WHERE new) FROM put
"""
# Rows are locked in the order of their ids: two writers cannot deadlock.
REMOVE: LiteralString = """
WITH known AS (SELECT id FROM {table} WHERE id = ANY(%s) ORDER BY id FOR UPDATE), gone AS (
    DELETE FROM {table} AS kept USING known WHERE kept.id = known.id RETURNING kept.id
) SELECT count(*) FROM gone
"""
# A database may be set to acknowledge before anything is on the disk.
DURABLE: LiteralString = """
SELECT set_config('synchronous_commit', 'on', true)
WHERE current_setting('synchronous_commit') = 'off'
"""


class Clause(NamedTuple):
    """SQL after WHERE, and its named parameters."""

    text: Composable
    parameters: dict[str, Any]


def clause(where: Where | None) -> Clause:
    """Return SQL that selects the rows for which `Where.holds`; values are parameters only.

    jsonb is compared as jsonb, texts by code point. Equality is containment, which the GIN index
    supports: 1 equals 1.0, true does not equal 1.
    """
    parameters: dict[str, Any] = {}

    def placed(value: object) -> Placeholder:
        name = f"value_{len(parameters)}"
        parameters[name] = value
        return Placeholder(name)

    def test(condition: Condition) -> Composable:
        field, values = condition.field, condition.values
        op = SQL("<>" if condition.op == "!=" else condition.op)  # a key of COMPARE
        if field == VAR:
            numbers = placed([float(value) for value in values])
            if condition.op == "in":
                return SQL("var = ANY({}::float8[])").format(numbers)
            return SQL("var {} ({}::float8[])[1]").format(op, numbers)
        kind = "boolean" if condition.kind == "bool" else condition.kind
        like = SQL("jsonb_typeof(fields -> {}::text) = {}").format(placed(field), placed(kind))
        if condition.op in ("=", "in", "!="):
            contained = [placed(json.dumps({field: value})) for value in values]
            same = SQL(" OR ").join(SQL("fields @> {}::jsonb").format(one) for one in contained)
            found = SQL("NOT ({})" if condition.op == "!=" else "({})").format(same)
        elif condition.kind == "string":
            text = SQL('(fields ->> {}::text) COLLATE "C" {} {}::text')
            found = text.format(placed(field), op, placed(values[0]))
        else:
            number = SQL("(fields -> {}::text) {} {}::jsonb")
            found = number.format(placed(field), op, placed(json.dumps(values[0])))
        return SQL("({} AND {})").format(like, found)

    tests = [test(one) for one in (where.conditions if where else ())]
    return Clause(SQL(" AND ").join(tests) if tests else SQL("true"), parameters)


def search(
    connections: Connections,
    vectors: NDArray[np.float32],
    *,
    k: int,
    clause: Clause,
    index: VectorIndex | None,
) -> Found:
    """Return the k nearest; queries with fewer by the index are repeated without it."""
    queries = np.arange(len(vectors))
    hits = search_hits(connections, vectors, queries, k=k, clause=clause, index=index)
    if index is not None:
        enough = np.bincount(hits["query"], minlength=len(vectors)) >= k
        if not enough.all():
            missing = queries[~enough]
            again = search_hits(connections, vectors, missing, k=k, clause=clause, index=None)
            hits = np.concatenate([hits[enough[hits["query"]]], again])
    counts = np.bincount(hits["query"], minlength=len(vectors))
    order = np.lexsort((hits["key"], hits["distance"], hits["query"]))
    row = hits["query"][order]
    found = np.zeros((len(vectors), int(counts.max(initial=0))), hits.dtype)
    found["distance"], found["var"] = np.inf, 1
    found[row, np.arange(len(row)) - (np.cumsum(counts) - counts)[row]] = hits[order]
    return Found(
        np.ascontiguousarray(found["key"]),
        found["distance"].astype(np.float32),
        np.ascontiguousarray(found["vector"]),
        np.ascontiguousarray(found["var"]),
    )


def search_hits(
    connections: Connections,
    vectors: NDArray[np.float32],
    queries: NDArray[np.int64],
    *,
    k: int,
    clause: Clause,
    index: VectorIndex | None,
) -> NDArray[np.void]:
    """Return the hits of these queries among the vectors, in no order."""
    names = {"where": clause.text, "order": BY_INDEX if index else BY_LOOKING_AT_ALL}
    lists = index.lists if index else 1
    effort = {
        "effort": str(min(1000, max(200, 2 * k))),
        "probes": str(max(1, min(lists, max(10, 2 * math.isqrt(lists))))),
    }
    width = vectors.shape[1]
    size = max(1, min(QUERIES_AT_ONCE, NUMBERS_OF_ANSWER // (k * width)))
    numbers = [("query", "i8"), ("distance", "f8"), ("key", "i8"), ("var", "f8")]
    layout = np.dtype([*numbers, ("vector", "f4", (width,))])
    blocks = [np.empty(0, layout)]
    for start in range(0, len(queries), size):
        chosen = queries[start : start + size]
        asked = {"vectors": to_sent(vectors[chosen]), "k": k, **clause.parameters}
        with connections.transaction() as session:
            session.run(SETTINGS, effort)
            rows = session.run(NEAREST, asked, binary=True, **names)
        if rows:
            query, distance, key, var, received = zip(*rows, strict=True)
            hits = np.empty(len(rows), layout)
            hits["query"] = chosen[np.array(query) - 1]
            hits["distance"] = np.square(distance)
            hits["key"], hits["var"] = key, var
            hits["vector"] = from_sent(received, width)
            blocks.append(hits)
    return np.concatenate(blocks)


def put_blocks(rows: Rows, space: Space) -> Iterator[dict[str, Any]]:
    """Yield the parameters of the statements that put all rows, in the order of their ids."""
    order = sorted(range(len(rows)), key=lambda row: rows.ids[row].encode())
    size = max(1, NUMBERS_AT_ONCE // space.width)
    vectors, var = space.gallery_vectors(rows.embeddings), space.var(rows.embeddings)
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        metadata = [dict(rows.metadata[row]) for row in chosen]
        yield {
            "ids": [rows.ids[row] for row in chosen],
            "vectors": to_sent(vectors[chosen]),
            "var": np.asarray(var)[chosen].tolist(),
            "digests": [rows.digests[row] or None for row in chosen],
            "metadata": [json.dumps(one, ensure_ascii=False, allow_nan=False) for one in metadata],
        }
