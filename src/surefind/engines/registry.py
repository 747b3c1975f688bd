"""Create and open engines by their place: a folder, `pgvector://...` or `milvus://...`."""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from surefind.engines.base import KINDS, Engine, EngineError, Space
from surefind.errors import InvalidArgument
from surefind.validation import check_choice, nearest

SCHEMES = {  # the only modules that a name in a file can load
    "faiss": "surefind.engines.embedded.engine",
    "pgvector": "surefind.engines.pgvector.engine",
    "milvus": "surefind.engines.milvus.engine",
}
METRICS = ("l2", "cosine", "ip")
COLUMNS = ("vector", "id", "label", "metric")  # parameters of the URL of an attached place


def create_engine(place: str, space: Space, facts: Mapping[str, Any], *, kind: str = "auto") -> Engine:
    """Create an empty engine.

    Args:
        place: a folder, or a URL of a server.
        space: family, dimension and ranking of its embeddings.
        facts: description to store, JSON.
        kind: "flat", "hnsw", "ivf", or "auto": exhaustive search while that is quick, then a graph.

    Returns:
        The engine, open.

    Raises:
        InvalidArgument: if the place or the kind is unknown.
        InvalidFile: if the folder holds an index already.
        EngineError: if the server cannot be reached or holds one already.
    """
    check_choice("kind", kind, ("auto", *KINDS))
    if is_attached(place):
        raise only_read(without_password(place))
    made: Engine = _module(place).create(place, space, facts, kind=kind)
    return made


def open_engine(place: str) -> Engine:
    """Open an engine.

    Args:
        place: a folder, or a URL of a server.

    Returns:
        The engine at its newest version.

    Raises:
        InvalidArgument: if the place is unknown.
        InvalidFile: if the folder holds no index, or a damaged one.
        EngineError: if the server cannot be reached or holds no index.
    """
    opened: Engine = _module(place).open_place(place)
    return opened


def is_url(place: str | Path) -> bool:
    return "://" in str(place)


def is_attached(place: str) -> bool:
    """Return whether a URL names columns of a table or collection that is only read."""
    return is_url(place) and re.search("[?&]vector=", place) is not None


def only_read(shown: str) -> EngineError:
    return EngineError(f"{shown} is attached: it is only read")


def attached_url(url: str, *, vector: str, id: str, label: str | None = None, metric: str = "l2") -> str:  # noqa: A002
    """Return the URL of a table or collection together with its columns."""
    check_choice("metric", metric, METRICS)
    if not url.startswith(("pgvector://", "milvus://")):
        raise InvalidArgument("url", expected="pgvector://... or milvus://...", got=repr(url))
    given = zip(COLUMNS, (vector, id, label, metric), strict=True)
    return _with_parameters(url, [(name, value) for name, value in given if value])


def same_columns(url: str, known: str) -> str:
    """Return a URL with the columns of a known one, unless it names its own."""
    named, wanted = ([pair for pair in parse_qsl(one.partition("?")[2]) if pair[0] in COLUMNS] for one in (url, known))
    return url if named else _with_parameters(url, wanted)


def _with_parameters(url: str, pairs: list[tuple[str, str]]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(pairs, quote_via=quote)}" if pairs else url


def without_password(place: str) -> str:
    """Return a URL without its password, even if it is malformed.

    >>> without_password("milvus://me:p/w@d@host:1/?sslpassword=x&collection=c")
    'milvus://me@host:1/?collection=c'
    """
    shown = re.sub(r"://([^:@/]*):.*@", r"://\1@", place, flags=re.DOTALL)
    return re.sub(r"([?&])[^=&]*(password|secret)=[^&]*&?", r"\1", shown).rstrip("?&")


def _module(place: str) -> Any:
    """Return the module of the engine at a place, which may be attached."""
    scheme = place.partition("://")[0] if is_url(place) else "faiss"
    if scheme not in SCHEMES or (scheme == "faiss" and is_url(place)):
        near = nearest(scheme, [name for name in SCHEMES if name != "faiss"])
        raise InvalidArgument(
            "engine",
            expected="faiss, pgvector://... or milvus://...",
            got=repr(without_password(place)),
            fix=f"did you mean {near}://...?" if near else "use faiss",
        )
    module = SCHEMES[scheme]
    return import_module(module.removesuffix("engine") + "attached" if is_attached(place) else module)
