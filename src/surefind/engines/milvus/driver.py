"""The one file that calls pymilvus: every call has a time limit and explains its errors."""

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.engines.engine import EngineError
from surefind.engines.milvus import failures
from surefind.engines.milvus.decoding import Hits, hits_of
from surefind.engines.milvus.url import Place

CONNECTING = 5.0  # seconds
LOADING = 600.0  # seconds; half a minute after a crash, as the server waits for its old self
FIELDS = ("id", "vector", "var", "digest", "metadata")


class IndexState(NamedTuple):
    """The index over vectors that the server has."""

    name: str
    type: str  # Milvus's word for its kind
    metric: str
    waiting: int  # rows that are not in it yet


class Collection:
    """One collection on a server, connected. Several threads may use it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._pymilvus, self._refusals = _packages()
        self._since, self._lock = 0, Lock()  # a moment by the server's clock
        try:
            self._client: Any = self._pymilvus.MilvusClient(
                f"{'https' if place.secure else 'http'}://{place.server}",
                user=place.user,
                password=place.password,
                db_name=place.database,
                timeout=CONNECTING,
                dedicated=True,
            )
        except self._refusals as error:
            raise failures.explained(error, place, "connect") from error

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def exists(self) -> bool:
        return bool(self._call("look for the collection", "has_collection"))

    def description(self) -> str:
        """What was written down when the collection was made."""
        found = self._call("describe the collection", "describe_collection")
        fields = tuple(field["name"] for field in found["fields"])
        return str(found["description"]) if fields == FIELDS else ""

    def create(self, description: str, width: int, *, longest_id: int, longest_digest: int) -> None:
        """Without an index: it cannot be searched yet."""
        types = self._pymilvus.DataType
        schema = self._pymilvus.MilvusClient.create_schema(
            description=description, enable_dynamic_field=False
        )
        schema.add_field("id", types.VARCHAR, max_length=longest_id, is_primary=True)
        schema.add_field("vector", types.FLOAT_VECTOR, dim=width)
        schema.add_field("var", types.DOUBLE)
        schema.add_field("digest", types.VARCHAR, max_length=longest_digest)
        schema.add_field("metadata", types.JSON)
        self._call("create it", "create_collection", schema=schema, consistency_level="Strong")

    def drop(self) -> None:
        self._call("drop the collection", "drop_collection")

    def server_version(self) -> str:
        return str(self._do("tell its version", "get_server_version"))

    def upsert(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._call("keep rows", "upsert", list(rows))

    def delete(self, expression: str) -> None:
        self._call("remove rows", "delete", filter=expression)

    def catch_up(self) -> None:
        """From now on reads see all that anyone has written until now.

        Milvus's own ways are slow ("Strong": each read waits 0.2 s or more) or forget what was
        removed ("Session", in 2.3). This way only the first read waits.
        """
        connection = self._opened()._get_connection()  # MilvusClient itself does not offer it
        try:
            now = int(connection.alloc_timestamp(timeout=self.place.timeout))
        except self._refusals as error:
            raise failures.explained(error, self.place, "tell the time") from error
        with self._lock:
            self._since = max(self._since, now)

    def count(self, expression: str) -> int:
        found = self._read("count rows", "query", filter=expression, output_fields=["count(*)"])
        return int(found[0]["count(*)"])

    def query(self, expression: str, fields: Sequence[str], limit: int) -> list[dict[str, Any]]:
        """Rows by ascending id, vectors as arrays."""
        found = self._read(
            "read rows",
            "query",
            filter=expression,
            output_fields=list(fields),
            limit=limit,
            strict_float32=True,
        )
        return list(found)

    def search(
        self, vectors: NDArray[np.float32], k: int, *, expression: str, asking: Mapping[str, Any]
    ) -> list[Hits]:
        found = self._read(
            "search",
            "search",
            data=list(vectors),
            filter=expression,
            limit=k,
            output_fields=["vector", "var"],
            search_params={"metric_type": "L2", "params": dict(asking)},
        )
        return hits_of(found, vectors.shape[1])

    def index(self) -> IndexState | None:
        names = self._do("list indexes", "list_indexes", self.place.collection, field_name="vector")
        if not names:
            return None
        found = self._call("describe the index", "describe_index", index_name=names[0])
        return IndexState(
            name=names[0],
            type=found["index_type"],
            metric=found["metric_type"],
            waiting=int(found.get("pending_index_rows", 0)),
        )

    def build_index(self, kind: str, building: Mapping[str, Any]) -> None:
        """Begins it; `index` tells how far it is."""
        wanted = self._pymilvus.MilvusClient.prepare_index_params(
            "vector", index_type=kind, metric_type="L2", params=dict(building), index_name="vector"
        )
        self._call("build an index", "create_index", wanted, sync=False)

    def drop_index(self, name: str) -> None:
        """It cannot be read from then on, until it has another and is loaded."""
        self._call("release the collection", "release_collection")
        self._call("drop the index", "drop_index", index_name=name)

    def load(self) -> None:
        self._call("load the collection", "load_collection", timeout=LOADING)

    def flush(self) -> None:
        self._call("write everything to its store", "flush", timeout=LOADING)

    def _read(self, doing: str, name: str, **arguments: Any) -> Any:
        arguments["consistency_level"] = "Customized" if self._since else "Strong"
        arguments["guarantee_timestamp"] = self._since  # 0: the server did not tell the time
        try:
            return self._call(doing, name, **arguments)
        except failures.NotLoaded:  # the server restarted, or someone released it
            self.load()
            return self._call(doing, name, **arguments)

    def _call(self, doing: str, name: str, *arguments: Any, **named: Any) -> Any:
        return self._do(doing, name, self.place.collection, *arguments, **named)

    def _do(self, doing: str, name: str, *arguments: Any, **named: Any) -> Any:
        client = self._opened()
        named.setdefault("timeout", self.place.timeout)
        try:
            return getattr(client, name)(*arguments, **named)
        except self._refusals as error:
            raise failures.explained(error, self.place, doing) from error

    def _opened(self) -> Any:
        if self._client is None:
            raise EngineError(f"the engine at {self.place.shown} is closed", fix="open it again")
        return self._client


def _packages() -> tuple[Any, tuple[type[Exception], ...]]:
    """pymilvus, and everything that it raises."""
    try:
        pymilvus, grpc = import_module("pymilvus"), import_module("grpc")
    except ImportError as error:
        raise EngineError(
            "milvus:// needs the package pymilvus", fix="pip install 'surefind[milvus]'"
        ) from error
    # It prints a traceback for each error that is raised and explained here.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return pymilvus, (pymilvus.MilvusException, grpc.RpcError)
