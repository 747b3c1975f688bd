"""The folder of an index: its engine, the model that made it, and perhaps the vectors."""

from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

from surefind.engines.opening import is_url, without_password
from surefind.errors import InvalidArgument, InvalidFile
from surefind.files import make_writable, write_whole
from surefind.storage import read_small, seal, unseal

SCHEMA = 1
EMBEDDED = "faiss"


@dataclass(frozen=True)
class IndexFolder:
    """Paths inside, and the one file that says what it is."""

    path: Path

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def calibration(self) -> Path:
        return self.path / "calibration"

    @property
    def upgrade(self) -> Path:
        """Of an index of vectors: what gives them their variance."""
        return self.path / "upgrade"

    @property
    def pictures(self) -> Path:
        """Where the images came from."""
        return self.path / "pictures.json"

    @property
    def file(self) -> Path:
        return self.path / "index.json"

    def place(self, engine: str) -> str:
        """Where an engine finds its rows: a URL, or a folder in here."""
        if is_url(engine):
            return engine
        if engine != EMBEDDED:
            raise InvalidArgument(
                "engine",
                expected="faiss, pgvector://... or milvus://...",
                got=repr(engine),
                fix="use faiss, which needs no server",
            )
        return str(self.path / "store")

    def copy_upgrade(self, other: "IndexFolder") -> None:
        if self.upgrade.exists():
            copytree(self.upgrade, other.upgrade)

    def exists(self) -> bool:
        return self.file.exists()

    def make(self) -> None:
        make_writable(self.path)

    def write(self, engine: str) -> None:
        facts = {"schema": SCHEMA, "engine": without_password(engine)}
        write_whole(self.file, seal(facts))

    def read(self) -> str:
        """The engine that holds the rows."""
        if not self.file.exists():
            raise InvalidFile(
                f"{self.path} holds no index: {self.file.name} is missing",
                fix="name a folder that `surefind index` made; if that was stopped, run it again",
            )
        facts = unseal(self.file, read_small(self.file))
        if facts.get("schema") != SCHEMA:
            raise InvalidFile(
                f"{self.file} has schema {facts.get('schema')!r}, this version reads {SCHEMA}",
                fix="open it with the version of surefind that wrote it",
            )
        return str(facts["engine"])
