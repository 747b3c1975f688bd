"""Engines on the server that all tests share; to make a collection takes it three seconds."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from milvus_server import MilvusServer

from surefind.engines.base import EngineError, Space
from surefind.engines.milvus.engine import MilvusEngine
from surefind.engines.registry import create_engine

NUMBER = itertools.count()
SPACE = Space("gaussian", 4)

NewUrl = Callable[[], str]
Opened = Callable[..., MilvusEngine]


@pytest.fixture(scope="session")
def kept_engine(milvus: MilvusServer) -> Iterator[MilvusEngine]:
    engine = create_engine(f"{milvus.url}?collection=kept", SPACE, {"fingerprint": "f"}, kind="flat")
    yield engine
    engine.close()


@pytest.fixture
def engine(kept_engine: MilvusEngine) -> MilvusEngine:
    """An empty one, of 4-dimensional Gaussians; looks at every row."""
    for block in kept_engine.scan():
        kept_engine.remove(block.keys.tolist())
    kept_engine.refresh()
    return kept_engine


@pytest.fixture
def new_url(milvus: MilvusServer) -> NewUrl:
    """Of a collection that is not there."""
    return lambda: f"{milvus.url}?collection=test_{next(NUMBER)}"


@pytest.fixture
def make(new_url: NewUrl) -> Iterator[Opened]:
    """Engines in new collections; dropped after the test."""
    made: list[MilvusEngine] = []

    def create(url: str | None = None, *, space: Space = SPACE, kind: str = "auto", **facts: object):
        made.append(create_engine(url or new_url(), space, facts, kind=kind))
        return made[-1]

    yield create
    for engine in made:
        with suppress(EngineError):  # the test closed or dropped it
            engine._collection.call("drop_collection")
            engine.close()
