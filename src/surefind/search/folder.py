"""Folder of an index: paths, description, and the model in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from surefind.confidence.calibration import read_calibration
from surefind.engines.registry import is_url, without_password
from surefind.errors import InvalidArgument, InvalidFile
from surefind.storage import Documents, dump_checksummed_json, load_checksummed_json, write_whole

if TYPE_CHECKING:
    from surefind.confidence.variance_heads import VarianceHeads
    from surefind.encoders.image_encoder import ImageEncoder

SCHEMA = 2
EMBEDDED = "faiss"
UPGRADE_FILE = "upgrade.db"


class IndexFolder:
    """Paths in the folder, and its description `index.json`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "index.json"
        self.model = path / "model"
        self.upgrade = path / "upgrade"  # only of an index of vectors
        # Calibration and image folders; in the file of the embedded engine, if used.
        self.documents = Documents(path / "store" / "index.db")

    def place(self, engine: str) -> str:
        """URL of the engine, or its path in this folder."""
        if is_url(engine):
            return engine
        if engine != EMBEDDED:
            expected = "faiss, pgvector://... or milvus://..."
            raise InvalidArgument("engine", expected=expected, got=repr(engine))
        return str(self.path / "store")

    def exists(self) -> bool:
        return self.file.exists()

    def write(self, engine: str) -> None:
        write_whole(self.file, dump_checksummed_json({"schema": SCHEMA, "engine": without_password(engine)}))

    def read(self) -> str:
        """Read the description; return the engine."""
        if not self.exists():
            raise InvalidFile(
                f"{self.path} holds no index: {self.file.name} is missing",
                fix="name a folder that `surefind index` made; if that was stopped, run it again",
            )
        facts = load_checksummed_json(self.file)
        if (schema := facts.get("schema")) != SCHEMA:
            problem = f"{self.file} has schema {schema!r}, this version reads {SCHEMA}"
            fix = "open it with the version of surefind that wrote it"
            if schema == 1:
                problem = f"{self.path} was written by surefind 0.1, whose format is no longer read"
                fix = "make it anew in another folder: surefind index IMAGES -o INDEX"
            raise InvalidFile(problem, fix=fix)
        return str(facts["engine"])


INT8 = "-int8-"  # in the fingerprints of int8 models


def load_encoder(folder: IndexFolder, fingerprint: str) -> ImageEncoder:
    """Load the model in the folder; raise InvalidArgument if it did not make the rows."""
    _check_has_model(folder, fingerprint)
    from surefind.encoders.open import open_encoder

    runtime = "onnx-int8" if INT8 in fingerprint else "torch"
    encoder = open_encoder(folder.model, runtime=runtime)
    check_same_model(encoder.fingerprint, fingerprint, whose=str(folder.model))
    return encoder


def encoder_of(folder: Path, runtime: str) -> ImageEncoder:
    """Load the model of an index with this runtime."""
    place = IndexFolder(folder)
    place.read()  # it is an index
    _check_has_model(place)
    from surefind.encoders.open import open_encoder

    return open_encoder(place.model, runtime=runtime)


def upgrade_heads(folder: IndexFolder, fingerprint: str) -> VarianceHeads | None:
    """Variance heads of an index of upgraded vectors; None if it has none."""
    if not folder.upgrade.exists():
        return None
    documents = Documents(folder.upgrade / UPGRADE_FILE)
    return read_calibration(documents, fingerprint=fingerprint, ranking="mean").heads


def check_same_model(fingerprint: str, of_the_index: str, *, whose: str) -> None:
    """Raise InvalidArgument if the fingerprints differ."""
    if fingerprint != of_the_index:
        raise InvalidArgument(
            "model",
            expected=f"the one that made the index, {_short(of_the_index)}",
            got=f"{_short(fingerprint)} ({whose})",
            fix=_remedy(fingerprint, of_the_index),
        )


def _check_has_model(folder: IndexFolder, fingerprint: str = "") -> None:
    if not folder.model.exists():
        from surefind.encoders.open import CALLABLE

        if fingerprint.startswith(CALLABLE):
            name, _, dim = fingerprint.removeprefix(CALLABLE).rpartition(":")
            made_by = f"from_callable(function, dim={dim}, name={name!r})"
            raise InvalidFile(
                f"{folder.path} was made by {name!r}, a function that is not saved with it",
                fix=f"Index.open({str(folder.path)!r}, encoder=surefind.encoders.{made_by})",
            )
        raise InvalidFile(
            f"{folder.path} has no model: its embeddings came from elsewhere",
            fix="search with embeddings, or open it with encoder=...",
        )


def _short(fingerprint: str) -> str:
    """Shortened, with the suffix of an export."""
    from surefind.encoders.open import CALLABLE

    if fingerprint.startswith(CALLABLE):
        return fingerprint
    model, dash, rest = fingerprint.partition("-")
    return model[:12] + dash + rest


def _remedy(fingerprint: str, of_the_index: str) -> str:
    same_weights = fingerprint.partition("-")[0] == of_the_index.partition("-")[0]
    if same_weights and INT8 in of_the_index:
        if INT8 in fingerprint:
            return "it was exported anew: make a new index with this export"
        return "the index is of its int8 export: --runtime onnx-int8"
    if same_weights and INT8 in fingerprint:
        return "an int8 export needs a new index: add --runtime onnx-int8 and another -o INDEX"
    return "use that model, or make an index with this one"
