"""Table or view that another program filled, searched with pgvector and never changed."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, LiteralString, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.embeddings import POINT_VAR
from surefind.engines.base import EngineError, Found
from surefind.engines.filters import NAME, VAR, Condition, Metadata, Where
from surefind.engines.knn import nearest_rows
from surefind.engines.pgvector import schema
from surefind.engines.pgvector.connection import SQL, Composable, Connections, Identifier, Literal, from_sent, parse
from surefind.engines.pgvector.engine import Clause, TableReader, joined
from surefind.engines.pgvector.schema import VectorIndex
from surefind.engines.server import SAMPLE, ReadOnly, attached_record, columns_of, fields_of, opened
from surefind.errors import InvalidArgument

MANY = 16  # queries from which one pass over a table without index is quicker
OPERATORS: dict[str, LiteralString] = {"l2": "<->", "cosine": "<=>", "ip": "<#>"}
SQUARED: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {  # of unit vectors
    "l2": np.square,
    "cosine": lambda distance: 2 * distance,
    "ip": lambda negative: 2 + 2 * negative,
}
KINDS = {"S": "string", "N": "number", "B": "bool", "D": "string", "E": "string"}
WHOLE, TEXT = ("bigint", re.compile(r"0|-?[1-9]\d{0,17}")), ("text", re.compile(".*", re.DOTALL))
IDS: dict[str, tuple[LiteralString, re.Pattern[str]]] = {  # compared by an index of their column
    **dict.fromkeys(("smallint", "integer", "bigint"), WHOLE),
    **dict.fromkeys(("text", "character varying"), TEXT),
    "uuid": ("uuid", re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")),
}
TYPES: LiteralString = """
SELECT attname, format_type(atttypid, NULL), typcategory
FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
UNIQUE: LiteralString = """
SELECT count(*) > 0 FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
WHERE indrelid = to_regclass(%s) AND indisunique AND indnkeyatts = 1 AND indpred IS NULL
    AND attname = %s
"""


class Field(NamedTuple):
    """Column that can be filtered by."""

    sql: Composable
    kind: str  # string, number or bool
    type: str  # its type in PostgreSQL


def open_place(place: str) -> "AttachedTable":
    return opened(AttachedTable, Connections(parse(place)))


class AttachedTable(ReadOnly, TableReader):
    """`Engine` that only reads a table or view.

    Rows whose id or vector is missing do not count.
    """

    _keys = "O"  # ids

    def __init__(self, connections: Connections) -> None:
        table = connections.table
        with connections.borrowed() as session:
            schema.check_extension(session)
            types = {name: rest for name, *rest in session.run(TYPES, [table.quoted])}
            if not types:
                raise EngineError(f"{table.shown}: there is no table or view {table.name}")
            given = columns_of(table.columns, tuple(types))
            kind = types[given["vector"]][0]
            if kind not in ("vector", "halfvec"):
                raise InvalidArgument("vector", expected="a column of vectors", got=kind)
            fields = {
                name: _field(name, *its)
                for name, its in types.items()
                if NAME.fullmatch(name) and (its[1] in KINDS or its[0] == "uuid")
            }
            self._own_fields = fields_of(fields, given, {name: its for name, (its, _) in types.items()})
            self._metric, self._id_type = given["metric"], types[given["id"]][0]
            self._squared = SQUARED[self._metric]
            vector, row = Identifier(given["vector"]), Identifier(given["id"])
            self._there = SQL("{} IS NOT NULL AND {} IS NOT NULL").format(vector, row)
            unique = session.run(UNIQUE, [table.quoted, given["id"]]) == [(True,)]
            repeated: LiteralString = (
                "SELECT {row}::text FROM {table} WHERE {there} GROUP BY {row} HAVING count(*) > 1 LIMIT 1"
            )
            if not unique and (twice := session.run(repeated, row=row, there=self._there)):
                raise InvalidArgument("id", expected="a column without repetitions", got=f"{twice[0][0]!r} twice")
            statement: LiteralString = "SELECT {vector}::vector FROM {table} WHERE {there} LIMIT {many}"
            names = {"vector": vector, "there": self._there, "many": Literal(SAMPLE)}
            sample = [sent for (sent,) in session.run(statement, binary=True, **names)]
            widths = {len(sent) // 4 - 1 for sent in sample}
            if len(widths) > 1:
                raise InvalidArgument("vector", expected="vectors of one dimension", got=f"{sorted(widths)}")
            index = schema.vector_index(session, "auto")
        key = SQL("{}::text").format(row)
        columns = {
            "row": row,
            "key": key,
            "id": key,
            "vector": SQL("{}::vector").format(vector),
            "distance": SQL("{} {} surefind_vector::{}").format(vector, SQL(OPERATORS[self._metric]), Identifier(kind)),
            "var": SQL("{}::float8").format(Literal(POINT_VAR)),
            "digest": SQL("''"),
            "metadata": _json(self._own_fields),
        }
        record = attached_record(table.shown, self._metric, from_sent(sample, min(widths, default=0)))
        # a view has no index of its own, but may use that of its table
        super().__init__(record, connections, columns, index or VectorIndex("hnsw", 1))
        self._kind, self._seen = index.kind if index else "flat", self.count()

    def search(self, vectors: NDArray[np.float32], k: int, where: Where | None = None) -> Found:
        """Return the k nearest; many queries without an index in one pass over the table.

        The server would read all vectors again for each of them.
        """
        if self._kind != "flat" or len(vectors) < MANY:
            return super().search(vectors, k, where)
        query, best = torch.from_numpy(np.ascontiguousarray(vectors)), None
        for block in self.scan(where):
            near = nearest_rows(query, torch.from_numpy(block.vectors), k)
            rows, distance = near.rows.numpy(), near.distance.numpy()
            found = Found(block.keys[rows], distance, block.vectors[rows], block.var[rows])
            if best is not None:
                both: list[tuple[NDArray[Any], NDArray[Any]]] = list(zip(best, found, strict=True))
                found = Found(*(np.concatenate(pair, axis=1) for pair in both))
            order = np.argsort(found.distance, axis=1, kind="stable")[:, :k]
            first = (np.arange(len(order))[:, None], order)
            best = Found(found.keys[first], found.distance[first], found.vectors[first], found.var[first])
        return super().search(vectors, k, where) if best is None else best

    def describe(self) -> dict[str, Any]:
        return {"engine": "pgvector", **super().describe(), "table": self._connections.table.name}

    def _metadata(self, text: str) -> Metadata:
        found = json.loads(text, parse_int=lambda digits: (int if len(digits) < 16 else float)(digits))
        return {name: value for name, value in found.items() if value is not None}

    def _among(self, column: str) -> Composable:
        same = super()._among(column)
        if self._id_type in IDS:
            kind = SQL(IDS[self._id_type][0])
            same = SQL("{} = ANY(%s::text[]::{}[])").format(self._columns["row"], kind)
        return SQL("{} AND {}").format(same, self._there)

    def _known(self, values: list[Any]) -> list[Any]:
        form = IDS.get(self._id_type, TEXT)[1]
        return [value for value in values if form.fullmatch(value)]

    def _clause(self, where: Where | None) -> Clause:
        found = joined(where, self._test)
        return found._replace(text=SQL("{} AND {}").format(self._there, found.text))

    def _test(self, condition: Condition, placed: Callable[[object], Composable]) -> Composable:
        field = self._own_fields.get(condition.field)
        if condition.field == VAR:
            return SQL("true" if condition.holds({}, POINT_VAR) else "false")
        if field is None or field.kind != condition.kind:
            return SQL("false")
        whole = all(isinstance(value, int) for value in condition.values)
        if field.kind == "string":
            kind = "text"
        elif field.type in ("boolean", "double precision"):
            kind = field.type
        else:
            kind = "bigint" if whole and field.type != "numeric" else "numeric"
        if condition.op in ("=", "in"):
            values = placed(list(condition.values))
            return SQL("{} = ANY({}::{}[])").format(field.sql, values, SQL(kind))
        order = SQL(' COLLATE "C"' if field.kind == "string" else "")
        op = SQL("<>" if condition.op == "!=" else condition.op)
        return SQL("{}{} {} {}::{}").format(field.sql, order, op, placed(condition.values[0]), SQL(kind))


def _field(name: str, kind: str, category: str) -> Field:
    column = Identifier(name)
    if kind == "real":  # its shortest decimals, as in the metadata
        return Field(SQL("{}::text::float8").format(column), "number", "double precision")
    if category in ("N", "B") or kind in ("text", "character varying"):
        return Field(column, KINDS[category], kind)
    return Field(SQL("{}::text").format(column), "string", "text")


def _json(fields: Mapping[str, Field]) -> Composable:
    """Return the fields as JSON text; to JSON, infinity would be a text."""
    if not fields:
        return SQL("'{{}}'")
    finite = SQL("CASE WHEN abs({0}) < 'Infinity' THEN {0} END")
    shown = {n: finite.format(its.sql) if its.type == "double precision" else its.sql for n, its in fields.items()}
    each = [SQL("{} AS {}").format(value, Identifier(name)) for name, value in shown.items()]
    return SQL("(SELECT to_json(fields) FROM (SELECT {}) AS fields)::text").format(SQL(", ").join(each))
