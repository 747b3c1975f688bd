"""Client of one Milvus collection: URL, calls, errors. The only importer of pymilvus."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import POINT_VAR
from surefind.engines.base import EngineError
from surefind.engines.registry import COLUMNS
from surefind.engines.server import RETRY, unreadable_url
from surefind.errors import InvalidArgument

FORM = "milvus://user:password@host:port/database?collection=name"
CONNECTING = 5.0  # seconds
LOADING = 600.0  # seconds; after a crash it takes half a minute
Hits = tuple[list[str], list[float], NDArray[np.float32], list[float]]  # as the fields of Found
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True)
class CollectionUrl:
    """One collection on one server."""

    server: str  # host:port
    user: str = ""
    password: str = field(default="", repr=False)
    database: str = "default"
    collection: str = "surefind"
    secure: bool = False  # TLS
    timeout: float = 60.0  # seconds of a call
    columns: Mapping[str, str] = field(default_factory=dict)  # of an attached collection

    @property
    def shown(self) -> str:
        """URL without the password."""
        user = quote(self.user, safe="") + "@" if self.user else ""
        secure = "&secure=true" if self.secure else ""
        return f"milvus://{user}{self.server}/{self.database}?collection={self.collection}{secure}"


def parse(url: str) -> CollectionUrl:
    """Parse a URL and check its names, which are written into requests unquoted."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise unreadable_url(FORM) from None  # the cause may show a password
    host = re.fullmatch(r"(?:[^@]*@)?([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(:\d+)?", parts.netloc)
    beyond = parts.path + parts.query + parts.fragment
    if parts.scheme != "milvus" or not host or port == 0 or parts.fragment or "@" in beyond:
        raise unreadable_url(FORM)
    every = parse_qsl(parts.query, keep_blank_values=True)
    columns = {name: value for name, value in every if name in COLUMNS}
    given = [(name, value) for name, value in every if name not in COLUMNS]
    settings = {"collection": "surefind", "secure": "false", "timeout": "60"} | dict(given)
    seconds = re.fullmatch(r"\d+(\.\d+)?", settings["timeout"])
    if (
        len(settings) > 3
        or len(dict(given)) < len(given)
        or settings["secure"] not in ("true", "false")
        or not seconds
        or not 0 < float(seconds[0]) <= 3600
    ):
        raise InvalidArgument(
            "engine",
            expected="after the '?' at most collection=name, secure=true or false, and timeout=seconds up to 3600",
            got="&".join(f"{name}={value}" for name, value in given)[:80],
        )
    database, _, collection = unquote(parts.path).strip("/").rpartition("/")
    if not columns or "collection" in dict(given):
        database, collection = unquote(parts.path).strip("/"), settings["collection"]
    names = {"database": database or "default", "collection": collection}
    for what, name in names.items():
        if not _NAME.fullmatch(name):
            raise InvalidArgument(
                what, expected="a name of letters, digits and _, at most 64, that no digit begins", got=repr(name[:80])
            )
    return CollectionUrl(
        f"{host[1]}:{port or 19530}",
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        secure=settings["secure"] == "true",
        timeout=float(seconds[0]),
        columns=columns,
        **names,
    )


class NotLoaded(EngineError):
    """The collection is not loaded, as after a restart of the server."""


def server_error(error: Exception, place: CollectionUrl, *, fix: str = RETRY) -> EngineError:
    """Return an `EngineError` with the server's first line; gRPC's is more precise than pymilvus's.

    `fix` is for errors that may pass.
    """
    causes = (error, error.__cause__, error.__context__)
    rpc: Any = next((one for one in causes if callable(getattr(one, "details", None))), None)
    message = rpc.details() if rpc else getattr(error, "message", error)
    first = str(message).strip().partition("\n")[0][:300] or type(error).__name__
    if place.password:
        first = first.replace(place.password, "***")
    loaded = getattr(error, "code", None) not in (101, 103)
    kind = EngineError if loaded else NotLoaded
    return kind(f"{place.shown}: {first}", fix=fix if rpc or not loaded else None)


class Collection:
    """Connection to one collection. Several threads may use it."""

    def __init__(self, place: CollectionUrl) -> None:
        self.place = place
        try:
            self.pymilvus, grpc = import_module("pymilvus"), import_module("grpc")
        except ImportError as error:
            raise EngineError("milvus:// needs the package pymilvus", fix="pip install 'surefind[milvus]'") from error
        # It logs a traceback for each error.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        self._refusals = (self.pymilvus.MilvusException, grpc.RpcError)
        self._since, self._lock = 0, Lock()  # a moment by the server's clock
        try:
            self._client: Any = self.pymilvus.MilvusClient(
                f"{'https' if place.secure else 'http'}://{place.server}",
                user=place.user,
                password=place.password,
                db_name=place.database,
                timeout=CONNECTING,
                dedicated=True,
            )
        except self._refusals as error:
            fix = "start the server, or correct host, port, user, password and secure= in the URL"
            raise server_error(error, place, fix=fix) from error

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        return self._do(name, self.place.collection, *arguments, **named)

    def server_version(self) -> str:
        return str(self._do("get_server_version"))

    def catch_up(self) -> None:
        """Make later reads see all that anyone has written until now.

        Milvus's consistency levels are slow ("Strong": each read waits 0.2 s or more) or miss
        removals ("Session", in 2.3). With a timestamp only the first read waits.
        """
        connection = self._opened()._get_connection()  # MilvusClient itself does not offer it
        try:
            now = int(connection.alloc_timestamp(timeout=self.place.timeout))
        except self._refusals as error:
            raise server_error(error, self.place) from error
        with self._lock:
            self._since = max(self._since, now)

    def count(self, expression: str) -> int:
        found = self._read("query", filter=expression, output_fields=["count(*)"])
        return int(found[0]["count(*)"])

    def query(self, expression: str, fields: Sequence[str], limit: int) -> list[dict[str, Any]]:
        """Return rows by ascending id, vectors as arrays."""
        asked = {"filter": expression, "output_fields": list(fields), "limit": limit}
        return list(self._read("query", **asked, strict_float32=True))

    def search(
        self,
        vectors: NDArray[np.float32],
        k: int,
        *,
        expression: str,
        effort: Mapping[str, Any],
        fields: Sequence[str],
        metric: str,
    ) -> list[Hits]:
        """Return hits; `fields` are the one of vectors, and that of variances, if any."""
        found = self._read(
            "search",
            data=list(vectors),
            anns_field=fields[0],
            filter=expression,
            limit=k,
            output_fields=list(fields),
            search_params={"metric_type": metric, "params": dict(effort)},
        )
        return hits_of(found, vectors.shape[1], fields[0])

    def index(self, field: str = "vector") -> dict[str, Any] | None:
        names = self.call("list_indexes", field_name=field)
        return self.call("describe_index", index_name=names[0]) if names else None

    def _read(self, name: str, **arguments: Any) -> Any:
        arguments["consistency_level"] = "Customized" if self._since else "Strong"
        arguments["guarantee_timestamp"] = self._since  # 0: the server did not tell the time
        try:
            return self.call(name, **arguments)
        except NotLoaded:  # the server restarted, or someone released it
            self.call("load_collection", timeout=LOADING)
            return self.call(name, **arguments)

    def _do(self, name: str, *arguments: Any, **named: Any) -> Any:
        client = self._opened()
        named.setdefault("timeout", self.place.timeout)
        try:
            return getattr(client, name)(*arguments, **named)
        except self._refusals as error:
            raise server_error(error, self.place) from error

    def _opened(self) -> Any:
        if self._client is None:
            raise EngineError(f"the engine at {self.place.shown} is closed")
        return self._client


def hits_of(found: Any, width: int, name: str = "vector") -> list[Hits]:
    """Return the hits of each query from a result of `MilvusClient.search`.

    Vectors are taken from its raw data if possible: as lists, hit by hit, takes 80 times longer.
    """
    vectors, plain = None, None
    for data in getattr(found[0], "lazy_field_data", ()) if found else ():
        if data.field_name == name:
            vectors = np.array(data.vectors.float_vector.data, np.float32)
            plain = [list(list.__iter__(hits)) for hits in found]  # vectors stay where they are
    if vectors is None or plain is None:
        plain = [list(hits) for hits in found]
        vectors = np.array([hit["entity"][name] for hits in plain for hit in hits], np.float32)
    counts = [len(hits) for hits in plain]
    parts = np.split(vectors.reshape(sum(counts), width), np.cumsum(counts)[:-1])
    return [
        (
            [hit["id"] for hit in hits],
            [hit["distance"] for hit in hits],
            part,
            [hit["entity"].get("var", POINT_VAR) for hit in hits],
        )
        for hits, part in zip(plain, parts, strict=True)
    ]
