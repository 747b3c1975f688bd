"""Collection that another program filled, searched in Milvus and never changed."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from surefind.embeddings import POINT_VAR
from surefind.engines.filters import NAME, VAR, Condition, Value, Where, check_value
from surefind.engines.milvus.client import Collection, parse
from surefind.engines.milvus.engine import KINDS, CollectionReader, among, compared, literal
from surefind.engines.server import SAMPLE, ReadOnly, StoredRow, attached_record, columns_of, fields_of, opened
from surefind.errors import InvalidArgument

SMALLEST = 1 - 2**63  # id that Milvus can parse


def open_place(place: str) -> "AttachedCollection":
    return opened(AttachedCollection, Collection(parse(place)))


class AttachedCollection(ReadOnly, CollectionReader):
    """`Engine` that only reads a collection, by its primary key."""

    def __init__(self, collection: Collection) -> None:
        place, types = collection.place, collection.pymilvus.DataType
        there = {its["name"]: its for its in collection.call("describe_collection")["fields"]}
        given = columns_of(place.columns, tuple(there))
        key, vector = there[given["id"]], there[given["vector"]]
        if not key.get("is_primary"):
            raise InvalidArgument("id", expected="the primary key", got=repr(given["id"]))
        if vector["type"] != types.FLOAT_VECTOR:
            raise InvalidArgument("vector", expected="a field of float vectors", got=types(vector["type"]).name)
        index = collection.index(given["vector"])
        if index is None or index["metric_type"] != given["metric"].upper():
            built = f"that of the field's index, {index['metric_type'].lower()}" if index else "a field with an index"
            raise InvalidArgument("metric", expected=built, got=given["metric"])
        whole = (types.INT8, types.INT16, types.INT32, types.INT64)
        kinds = {types.VARCHAR: "string", types.BOOL: "bool"}
        kinds |= dict.fromkeys((*whole, types.FLOAT, types.DOUBLE), "number")
        fields = {
            name: (name, kinds[its["type"]])
            for name, its in there.items()
            if its["type"] in kinds and NAME.fullmatch(name)
        }
        shown = {name: types(its["type"]).name for name, its in there.items()}
        self._own_fields: dict[str, tuple[str, str]] = fields_of(fields, given, shown)
        self._id, self._number = given["id"], key["type"] in whole
        self._whole = {name for name, its in there.items() if its["type"] in whole}
        self._single = {name for name, its in there.items() if its["type"] == types.FLOAT}
        self._metric, self._kind = given["metric"], KINDS.get(index["index_type"], index["index_type"])
        self._fields_of_rows = [given["id"], given["vector"], *fields]
        self._fields_of_hits = [given["vector"]]
        collection.catch_up()
        sample = collection.query(self._after(""), [given["vector"]], SAMPLE)
        rows = np.array([row[given["vector"]] for row in sample], np.float32)
        columns = "&".join(f"{one}={other}" for one, other in given.items())
        super().__init__(attached_record(f"{place.shown}&{columns}", given["metric"], rows), collection)
        self._seen = self.count()

    def refresh(self) -> bool:
        self._collection.catch_up()
        return super().refresh()

    def describe(self) -> dict[str, Any]:
        return {"engine": "milvus", **super().describe(), "collection": self._collection.place.collection}

    def _expression(self, where: Where | None) -> str:
        conditions = where.conditions if where else ()
        return " and ".join([self._after(""), *map(self._condition, conditions)])

    def _condition(self, condition: Condition) -> str:
        name, kind = self._own_fields.get(condition.field, ("", ""))
        every = self._after("")
        if condition.field == VAR:
            return every if condition.holds({}, POINT_VAR) else f"not ({every})"
        if kind != condition.kind:
            return f"not ({every})"
        if name not in self._whole:
            return compared(condition, name)
        whole = [int(value) for value in condition.values if value == int(value)]
        if condition.op in ("=", "in"):
            return f"{name} in {whole}"
        if whole:
            return f"{name} {condition.op} {whole[0]}"
        if condition.op == "!=":
            return every
        below = math.floor(float(condition.values[0]))
        return f"{name} <= {below}" if condition.op[0] == "<" else f"{name} > {below}"

    def _after(self, last: str) -> str:
        if self._number:
            return f"{self._id} > {last or SMALLEST}"
        return f"{self._id} > {literal(last)}"

    def _among(self, ids: Iterable[str]) -> str:
        if not self._number:
            return among(self._id, ids)
        known = [name for name in ids if name.removeprefix("-").isdecimal() and len(name) < 19]
        return f"{self._id} in [{', '.join(str(int(name)) for name in known)}]"

    def _stored_row(self, row: Mapping[str, Any]) -> StoredRow:
        facts = {field: self._value(name, row[name]) for field, (name, _) in self._own_fields.items()}
        vector = self._scaled(np.array([row[self._fields_of_rows[1]]], np.float32))[0]
        metadata = {field: value for field, value in facts.items() if value is not None}
        return str(row[self._id]), vector, POINT_VAR, "", metadata

    def _value(self, name: str, value: Any) -> Value | None:
        """Return a value as it can be stored; floats by their shortest decimals."""
        if name in self._single:
            value = float(str(np.float32(value)))
        if isinstance(value, float) and not math.isfinite(value):
            return None
        found: Value = float(value) if isinstance(value, int) and abs(value) >= 2**53 else value
        check_value(name, found)
        return found
