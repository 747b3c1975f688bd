"""A server for all tests of this folder, and engines in new databases."""

from collections.abc import Callable, Iterator

import pytest
import torch
from postgres import PostgresServer, postgres_server

import surefind as sf
from surefind.engines.base import Rows, Space
from surefind.engines.filters import Metadata
from surefind.engines.pgvector.engine import PgvectorEngine
from surefind.engines.registry import create_engine, open_engine

MakeEngine = Callable[..., PgvectorEngine]
MakeRows = Callable[..., Rows]


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.fresh_url()


@pytest.fixture
def make_engine(url: str) -> Iterator[MakeEngine]:
    """Engines for 8-dimensional Gaussians by default; closed after the test."""
    made: list[PgvectorEngine] = []

    def make(place: str = url, *, dim: int = 8, kind: str = "auto", **facts: object):
        engine = create_engine(place, Space("gaussian", dim), facts, kind=kind)
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def reopen(url: str) -> Iterator[Callable[[], PgvectorEngine]]:
    """The engine at the same place, as another process would open it."""
    opened: list[PgvectorEngine] = []

    def open_again() -> PgvectorEngine:
        opened.append(open_engine(url))
        return opened[-1]

    yield open_again
    for engine in opened:
        engine.close()


@pytest.fixture
def make_rows() -> MakeRows:
    generator = torch.Generator().manual_seed(0)

    def make(*ids: str, dim: int = 8, digest: str = "", metadata: Metadata | None = None, count: int = 0) -> Rows:
        ids = ids or tuple(f"row {number}" for number in range(count))
        mean = torch.randn(len(ids), dim, generator=generator)
        var = torch.rand(len(ids), generator=generator) + 0.01
        given = tuple({"number": n} if metadata is None else metadata for n in range(len(ids)))
        return Rows(ids, sf.Gaussians(mean, var), (digest,) * len(ids), given)

    return make
