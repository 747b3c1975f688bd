"""Rows on their way into the table."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from surefind.engines.engine import Rows
from surefind.engines.pgvector.conditions import storable
from surefind.engines.pgvector.driver import SQL, Connection, to_sent
from surefind.engines.pgvector.tables import named
from surefind.engines.pgvector.url import Place
from surefind.engines.space import Space

NUMBERS_AT_ONCE = 2**21  # of the vectors in one statement: 8 MB

# Twice as quick as COPY into a temporary table and from there.
PUT = SQL("""
WITH put AS (
INSERT INTO {table} (id, vector, var, digest, metadata)
SELECT * FROM unnest(%(ids)b::text[], %(vectors)b::vector[], %(var)b::float8[],
    %(digests)b::text[], %(metadata)b::text[]) AS given (id, vector, var, digest, metadata)
ORDER BY id COLLATE "C"
ON CONFLICT (id) DO UPDATE SET vector = excluded.vector, var = excluded.var,
    digest = excluded.digest, metadata = excluded.metadata
RETURNING xmax = 0 AS new -- a row that was there was locked first
) SELECT count(*) FILTER (WHERE new) FROM put
""")
# Rows are always taken in the order of their ids: two writers never wait for each other.
REMOVE = SQL("""
WITH known AS (SELECT id FROM {table} WHERE id = ANY(%s) ORDER BY id FOR UPDATE)
DELETE FROM {table} AS kept USING known WHERE kept.id = known.id
""")
# A database may be told to acknowledge before anything is on the disk; an engine may not.
DURABLE = """
SELECT set_config('synchronous_commit', 'on', true)
WHERE current_setting('synchronous_commit') = 'off'
"""


def blocks(rows: Rows, space: Space) -> Iterator[dict[str, Any]]:
    """Parameters of the statements that put all rows, in the order of their ids."""
    order = sorted(range(len(rows)), key=lambda row: rows.ids[row].encode())
    size = max(1, NUMBERS_AT_ONCE // space.width)
    vectors, var = space.stored(rows.embeddings), space.var(rows.embeddings)
    metadata = [_written(given) for given in rows.metadata]
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        yield {
            "ids": [rows.ids[row] for row in chosen],
            "vectors": to_sent(vectors[chosen]),
            "var": np.asarray(var)[chosen].tolist(),
            "digests": [rows.digests[row] or None for row in chosen],
            "metadata": [metadata[row] for row in chosen],
        }


def put(connection: Connection, place: Place, block: Mapping[str, Any]) -> int:
    """Returns how many are new."""
    ((new,),) = connection.execute(named(PUT, place), block).fetchall()
    return int(new)


def remove(connection: Connection, place: Place, ids: Sequence[str]) -> int:
    """Returns how many there were."""
    known = [name for name in ids if storable(name)]
    return connection.execute(named(REMOVE, place), [known]).rowcount


def _written(metadata: Mapping[str, Any]) -> str:
    return json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False)
