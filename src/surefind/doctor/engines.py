"""Engines: whether the one in the folder works, and whether servers answer."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from surefind.doctor.finding import Finding, fine, tried
from surefind.engines.opening import SCHEMES, is_url, without_password
from surefind.errors import InvalidArgument

PATIENCE = 3  # seconds for a server to answer
LOG = "see the server's log"
FORMS = {
    "pgvector": "pgvector://user@host/database",
    "milvus": "milvus://host:19530",
}


def engines(urls: Sequence[str] = ()) -> list[Finding]:
    """faiss, and each server that was named; of the others, how to name one."""
    asked = [url.partition("://")[0] for url in urls]
    return [
        tried("faiss", _faiss, fix="pip install --force-reinstall faiss-cpu"),
        *(
            tried(scheme if scheme in FORMS else "engine", partial(_server, url), fix=LOG)
            for scheme, url in zip(asked, urls, strict=True)
        ),
        *(
            Finding(scheme, "absent", f"not asked: surefind doctor --engine {form}")
            for scheme, form in FORMS.items()
            if scheme not in asked
        ),
    ]


def _faiss() -> Finding:
    """A real search, small as it is: each vector is nearest to itself."""
    import numpy as np

    from surefind.engines.embedded.vectors import faiss

    vectors = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    nearest = index.search(vectors, 1)[1][:, 0]
    if nearest.tolist() != list(range(len(vectors))):
        return Finding(
            "faiss",
            "broken",
            "it does not find vectors that it was given",
            "pip install --force-reinstall faiss-cpu numpy",
        )
    return fine("faiss", f"{faiss.__version__}, finds {len(vectors)} of {len(vectors)} vectors")


def _server(url: str) -> Finding:
    scheme = url.partition("://")[0]
    if not is_url(url) or scheme not in FORMS:
        raise InvalidArgument(
            "--engine",
            expected=" or ".join(f"{name}://..." for name in SCHEMES if name in FORMS),
            got=repr(without_password(url)),
            fix=f"e.g. --engine {FORMS['pgvector']}",
        )
    seen = _pgvector(url) if scheme == "pgvector" else _milvus(url)
    return fine(scheme, f"{without_password(url)} answers: {seen}")


def _pgvector(url: str) -> str:
    """The versions of the server and of its extension; an index need not be there yet."""
    from surefind.engines.pgvector import extension
    from surefind.engines.pgvector.connections import Connections
    from surefind.engines.pgvector.url import parse

    place = parse(url)
    patient = {**place.parameters, "connect_timeout": str(PATIENCE)}
    connections = Connections(replace(place, parameters=patient))
    try:
        with connections.borrowed() as connection:
            server = connection.info.server_version // 10000
            vector = extension.version(connection)
    finally:
        connections.close()
    offered = f"pgvector {vector}" if vector else "pgvector is added with the first index"
    return f"PostgreSQL {server}, {offered}"


def _milvus(url: str) -> str:
    from surefind.engines.milvus.driver import Collection
    from surefind.engines.milvus.url import parse

    collection = Collection(replace(parse(url), timeout=float(PATIENCE)))
    try:
        return f"Milvus {collection.server_version().removeprefix('v')}"
    finally:
        collection.close()
