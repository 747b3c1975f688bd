"""Every engine in turn, with real servers."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from memory_engine import MemoryEngine

from surefind.engines.base import Engine, Space
from surefind.engines.registry import create_engine, open_engine

NUMBER = itertools.count()
FACTS = {"fingerprint": "f" * 64, "nested": {"a": [1, 2.5, "ü"]}}
SPACE = Space("gaussian", 12)


class Maker:
    """Create engines of one sort, each in a place of its own."""

    def __init__(self, new_place: Callable[[], str] | None) -> None:
        self.new_place = new_place
        self.made: list[Engine] = []
        self.place = ""

    def __call__(self, space: Space = SPACE, *, kind: str = "flat") -> Engine:
        if self.new_place is None:
            return MemoryEngine(space, FACTS)  # type: ignore[return-value]
        self.place = self.new_place()
        self.made.append(create_engine(self.place, space, FACTS, kind=kind))
        return self.made[-1]

    def again(self) -> Engine:
        """Open the last one again."""
        if self.new_place is None:
            pytest.skip("memory keeps nothing")
        self.made.append(open_engine(self.place))
        return self.made[-1]


KEPT = ("faiss", "pgvector", "milvus")


def places_of(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Return a function that returns a new place for an engine of the parameter's sort."""
    if request.param == "faiss":
        folder = request.getfixturevalue("tmp_path")
        return lambda: str(folder / str(next(NUMBER)))
    if request.param == "pgvector":
        server = request.getfixturevalue("postgres")
        return lambda: server.url(table=f"contract_{next(NUMBER)}")
    url = request.getfixturevalue("milvus").url
    return lambda: f"{url}?collection=contract_{next(NUMBER)}"


@pytest.fixture(params=KEPT)
def engine(request: pytest.FixtureRequest) -> str:
    """Engine argument of an index: faiss, or the URL of a new place."""
    return "faiss" if request.param == "faiss" else places_of(request)()


@pytest.fixture(params=["memory", *KEPT])
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    maker = Maker(None if request.param == "memory" else places_of(request))
    yield maker
    for engine in maker.made:
        engine.close()
