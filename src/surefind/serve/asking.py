"""What a client asks, and what it is answered with."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from surefind.embeddings import Embeddings
from surefind.errors import InvalidArgument
from surefind.search.hits import SearchResult
from surefind.search.query import wanted_rows
from surefind.serve.shelf import Shown

PATH = "path"  # metadata that says where an image is on this machine


@dataclass(frozen=True)
class Ask:
    """How to search; equal ones are answered together."""

    k: int = 12
    ranking: str | None = None  # the index's own unless given
    where: tuple[str, ...] = ()
    expand: int = 0

    def __post_init__(self) -> None:
        where = wanted_rows(self.where or None)  # refused before any work
        if where is not None and any(one.field == PATH for one in where.conditions):
            raise InvalidArgument(
                "where",
                expected="conditions on other fields",
                got="one on path, which is nobody's affair but the server's",
                fix="ask for an id, a label or other metadata",
            )


class Picture(NamedTuple):
    """An image that was sent."""

    bytes: int
    width: int
    height: int


@dataclass(frozen=True)
class Seconds:
    """Where the time of an answer went."""

    decode: float = 0.0
    wait: float = 0.0  # in queues
    encode: float = 0.0
    search: float = 0.0
    total: float = 0.0


@dataclass(frozen=True)
class Answered:
    """A result, from which version of the index, and how long it took."""

    result: SearchResult
    shown: Shown
    seconds: Seconds
    picture: Picture | None = None
    item: str | None = None  # the id of the image that asked, where it is in the index

    def after(self, total: float) -> "Answered":
        return replace(self, seconds=replace(self.seconds, total=total))


@dataclass(frozen=True)
class Encoded:
    """An image as the encoder sees it, and what that took."""

    embedding: Embeddings
    picture: Picture
    seconds: Seconds = field(default_factory=Seconds)
