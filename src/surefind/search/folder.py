"""The folder of an index: its engine, the model that made it, and perhaps the vectors."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from surefind.engines.opening import is_url, without_password
from surefind.errors import InvalidArgument, InvalidFile
from surefind.files import make_writable, write_whole

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

    def exists(self) -> bool:
        return self.file.exists()

    def make(self) -> None:
        make_writable(self.path)

    def write(self, engine: str) -> None:
        facts: dict[str, object] = {"schema": SCHEMA, "engine": without_password(engine)}
        content = json.dumps(facts | {"checksum": _checksum(facts)}, indent=2)
        write_whole(self.file, content.encode() + b"\n")

    def read(self) -> str:
        """The engine that holds the rows."""
        again = "restore the file from a copy, or make the index again: surefind index"
        try:
            facts = json.loads(self.file.read_bytes())
            checksum = facts.pop("checksum")
        except FileNotFoundError as error:
            raise InvalidFile(
                f"{self.path} holds no index: {self.file.name} is missing",
                fix="name a folder that `surefind index` made; if that was stopped, run it again",
            ) from error
        except OSError as error:
            raise InvalidFile(
                f"cannot read {self.file}: {error.strerror}", fix="check its permissions"
            ) from error
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise InvalidFile(f"{self.file} is damaged: {error}", fix=again) from error
        if checksum != _checksum(facts):
            raise InvalidFile(f"{self.file} was changed after it was written", fix=again)
        if facts["schema"] != SCHEMA:
            raise InvalidFile(
                f"{self.file} has schema {facts['schema']}, this version reads {SCHEMA}",
                fix="open it with the version of surefind that wrote it",
            )
        return str(facts["engine"])


def _checksum(facts: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
