"""What a version of an index consists of, as its manifest says."""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from surefind.engines.embedded.damage import Damaged
from surefind.engines.embedded.folder import OWN_FILE
from surefind.engines.space import Space
from surefind.errors import InvalidFile, SurefindError

SCHEMA = 1  # of everything in the folder

Count = Annotated[int, Field(ge=0, lt=2**62)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Store(_Record):
    """What an index is from its creation on; every manifest has a copy."""

    schema_: Annotated[int, Field(alias="schema", ge=SCHEMA, le=SCHEMA)] = SCHEMA
    identity: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]  # no two indexes are made with one
    family: str
    dim: Annotated[int, Field(ge=1, lt=2**31)]
    ranking: str
    kind: Literal["auto", "flat", "hnsw", "ivf"]
    facts: dict[str, Any]

    @property
    def space(self) -> Space:
        return Space(self.family, self.dim, self.ranking)


class Kept(_Record):
    """A file that never changes."""

    name: Annotated[str, Field(pattern=f"^{OWN_FILE}$")]
    bytes: Count
    sha256: Sha256


class Piece(_Record):
    """One segment as one version sees it."""

    segment: Kept
    rows: Annotated[int, Field(ge=1, lt=2**32)]
    least_var: float
    most_var: float
    dead: Kept | None = None  # a bitmap of the rows that were removed
    removed: Count = 0
    graph: Kept | None = None

    @property
    def living(self) -> int:
        return self.rows - self.removed

    @property
    def files(self) -> list[Kept]:
        return [file for file in (self.segment, self.dead, self.graph) if file is not None]


class Manifest(_Record):
    """One version of an index."""

    version: Count
    parent: Count | None
    next_key: Count
    store: Store
    pieces: list[Piece]

    @property
    def files(self) -> list[Kept]:
        return [file for piece in self.pieces for file in piece.files]

    @property
    def living(self) -> int:
        return sum(piece.living for piece in self.pieces)


class Pointer(_Record):
    """Which version is the newest."""

    version: Count
    sha256: Sha256  # of its manifest


R = TypeVar("R", bound=_Record)


def parse_record(path: Path, kind: type[R], facts: dict[str, Any]) -> R:
    """A record out of a file that was unsealed; whatever does not fit is damage."""
    written = facts.get("schema", SCHEMA)
    if isinstance(written, int) and written > SCHEMA:
        raise InvalidFile(
            f"{path} was written by a newer version of surefind", fix="upgrade surefind"
        )
    try:
        record = kind.model_validate(facts)
        if isinstance(record, Store):
            _ = record.space
    except (ValidationError, SurefindError) as error:
        raise Damaged(path, "it holds what this version of surefind does not know") from error
    return record


def dump(record: _Record) -> dict[str, Any]:
    return record.model_dump(by_alias=True)
