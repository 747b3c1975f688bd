"""Folder of an index: its engine, its model, and perhaps the vectors."""

from pathlib import Path

from surefind.encoders.encoder import Encoder
from surefind.encoders.onnx.files import read_export
from surefind.encoders.onnx.runtime import OnnxEncoder, open_encoder
from surefind.encoders.serialization import read_config
from surefind.engines.registry import is_url, without_password
from surefind.errors import InvalidArgument, InvalidFile
from surefind.storage import Documents, dump_checksummed_json, load_checksummed_json, write_whole

SCHEMA = 2
EMBEDDED = "faiss"


class IndexFolder:
    """Paths inside, and the one file that says what it is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "index.json"
        self.model = path / "model"
        self.upgrade = path / "upgrade"  # of an index of vectors: what gives them their variance
        # The calibration, and where the images came from; in the engine's file, if it has one.
        self.documents = Documents(path / "store" / "index.db")

    def place(self, engine: str) -> str:
        """Where an engine finds its rows: a URL, or a folder in here."""
        if is_url(engine):
            return engine
        if engine != EMBEDDED:
            expected = "faiss, pgvector://... or milvus://..."
            raise InvalidArgument("engine", expected=expected, got=repr(engine))
        return str(self.path / "store")

    def exists(self) -> bool:
        return self.file.exists()

    def write(self, engine: str) -> None:
        write_whole(
            self.file, dump_checksummed_json({"schema": SCHEMA, "engine": without_password(engine)})
        )

    def read(self) -> str:
        """The engine that holds the rows."""
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
                fix = "make it anew in another folder: surefind index MODEL IMAGES -o INDEX"
            raise InvalidFile(problem, fix=fix)
        return str(facts["engine"])


INT8 = "-int8-"  # in the fingerprints of models of whole numbers


def load_encoder(folder: IndexFolder, fingerprint: str) -> Encoder | OnnxEncoder:
    """The model in the folder, if it is the one that made the rows, run as it was then."""
    _check_has_model(folder)
    encoder = (
        OnnxEncoder.load(folder.model, "int8")
        if INT8 in fingerprint
        else Encoder.load(folder.model)
    )
    check_same_model(encoder.fingerprint, fingerprint, whose=str(folder.model))
    return encoder


def encoder_of(folder: Path, runtime: str) -> Encoder | OnnxEncoder:
    """The model that an index keeps, run by torch or from its export."""
    place = IndexFolder(folder)
    place.read()  # it is an index
    _check_has_model(place)
    return open_encoder(place.model, runtime)


def saved_fingerprint(model: Path, of_the_index: str) -> str:
    """Of the model in a folder, run as the one that made the rows."""
    if INT8 in of_the_index:
        return read_export(model, "int8").fingerprint_of("int8")
    return read_config(model).fingerprint


def check_same_model(fingerprint: str, of_the_index: str, *, whose: str) -> None:
    """Refuse what another model made."""
    if fingerprint != of_the_index:
        raise InvalidArgument(
            "model",
            expected=f"the one that made the index, {_short(of_the_index)}",
            got=f"{_short(fingerprint)} ({whose})",
            fix=_remedy(fingerprint, of_the_index),
        )


def _check_has_model(folder: IndexFolder) -> None:
    if not folder.model.exists():
        raise InvalidFile(
            f"{folder.path} has no model: its embeddings came from elsewhere",
            fix="search with embeddings, or open it with encoder=...",
        )


def _short(fingerprint: str) -> str:
    """With what was done to the model, if anything."""
    model, dash, rest = fingerprint.partition("-")
    return model[:12] + dash + rest


def _remedy(fingerprint: str, of_the_index: str) -> str:
    same_weights = fingerprint.partition("-")[0] == of_the_index.partition("-")[0]
    if same_weights and INT8 in of_the_index:
        if INT8 in fingerprint:
            return "it was exported anew: make a new index with this export"
        return "the index is of its int8 export: --runtime onnx-int8"
    if same_weights and INT8 in fingerprint:
        return "its int8 export needs an index of its own: surefind index --runtime onnx-int8"
    return "use that model, or make an index with this one"
