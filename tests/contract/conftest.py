"""Every engine that there is, one after the other: the real servers, started here."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from memory_engine import MemoryEngine

from surefind.engines.base import Engine
from surefind.engines.registry import create_engine, open_engine
from surefind.engines.space import Space

NUMBER = itertools.count()
FACTS = {"fingerprint": "f" * 64, "nested": {"a": [1, 2.5, "ü"]}}
SPACE = Space("gaussian", 12)

Make = Callable[..., Engine]


class Maker:
    """Makes engines of one sort, each in a place of its own."""

    def __init__(self, new_place: Callable[[int], str] | None) -> None:
        self.new_place = new_place
        self.made: list[Engine] = []
        self.place = ""

    def __call__(self, space: Space = SPACE, *, kind: str = "flat") -> Engine:
        if self.new_place is None:
            return MemoryEngine(space, FACTS)  # type: ignore[return-value]
        self.place = self.new_place(next(NUMBER))
        self.made.append(create_engine(self.place, space, FACTS, kind=kind))
        return self.made[-1]

    def again(self) -> Engine:
        """The last one, opened anew."""
        if self.new_place is None:
            pytest.skip("memory keeps nothing")
        self.made.append(open_engine(self.place))
        return self.made[-1]


KEPT = ("faiss", "pgvector", "milvus")


@pytest.fixture(params=KEPT)
def engine(request: pytest.FixtureRequest) -> str:
    """What an index is told: faiss, or the URL of a place that is new."""
    number = next(NUMBER)
    if request.param == "faiss":
        return "faiss"
    if request.param == "pgvector":
        return request.getfixturevalue("postgres").url(table=f"index_{number}")
    return f"{request.getfixturevalue('milvus').url}?collection=index_{number}"


@pytest.fixture(params=["memory", *KEPT])
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    if request.param == "memory":
        maker = Maker(None)
    elif request.param == "faiss":
        folder = request.getfixturevalue("tmp_path")
        maker = Maker(lambda number: str(folder / str(number)))
    elif request.param == "pgvector":
        server = request.getfixturevalue("postgres")
        maker = Maker(lambda number: server.url(table=f"contract_{number}"))
    else:
        server = request.getfixturevalue("milvus")
        maker = Maker(lambda number: f"{server.url}?collection=contract_{number}")
    yield maker
    for engine in maker.made:
        engine.close()
