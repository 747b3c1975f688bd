"""ONNX files of a model folder, and their index onnx/export.json."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import surefind
from surefind.encoders.serialization import read_config
from surefind.errors import InvalidFile, SurefindError
from surefind.storage import dump_checksummed_json, load_checksummed_json, make_writable, write_whole

SCHEMA = 1
FOLDER, FILE = "onnx", "export.json"
PRECISIONS = ("fp32", "int8")
PIXELS, MEAN, VAR = "pixels", "embedding_mean", "embedding_var"  # names in the graph


@dataclass(frozen=True)
class ExportedFile:
    """Digest and facts of an exported file."""

    sha256: str
    facts: dict[str, Any]  # parity, and the images that measured it

    def name(self, precision: str) -> str:
        """File name by content, so that a new export never replaces a file in use."""
        stem = "model" if precision == "fp32" else f"model_{precision}"
        return f"{stem}-{self.sha256[:16]}.onnx"


@dataclass(frozen=True)
class Exported:
    """Content of export.json."""

    fingerprint: str  # of the model that was exported
    files: dict[str, ExportedFile]  # by precision

    def fingerprint_of(self, precision: str) -> str:
        """Fingerprint of the embeddings: the model's own for fp32, another for int8."""
        if precision == "fp32":
            return self.fingerprint
        return f"{self.fingerprint}-{precision}-{self.files[precision].sha256[:12]}"


def write_export(model: Path, fingerprint: str, made: Mapping[str, tuple[bytes, dict[str, Any]]]) -> Exported:
    """Write files by precision; an interruption at any point leaves the old or the new export.

    export.json is replaced after the files are written; then files that it does not name are
    removed. Other precisions of the same model stay.
    """
    folder = model / FOLDER
    make_writable(folder)
    files: dict[str, ExportedFile] = {}
    with suppress(InvalidFile):
        earlier = _read(folder / FILE, "")
        if earlier is not None and earlier.fingerprint == fingerprint:
            files = earlier.files
    for precision, (content, facts) in made.items():
        files[precision] = ExportedFile(hashlib.sha256(content).hexdigest(), facts)
        write_whole(folder / files[precision].name(precision), content)
    said = {
        "schema": SCHEMA,
        "surefind": surefind.__version__,
        "fingerprint": fingerprint,
        "files": {
            precision: {"file": its.name(precision), "sha256": its.sha256, "facts": its.facts}
            for precision, its in files.items()
        },
    }
    write_whole(folder / FILE, dump_checksummed_json(said))
    named = {its.name(precision) for precision, its in files.items()}
    for left_over in folder.glob("model*-*.onnx"):
        if left_over.name not in named:
            with suppress(OSError):  # the next export removes it
                left_over.unlink()
    return Exported(fingerprint, files)


def read_export(model: Path, precision: str) -> Exported:
    """Read export.json; raise InvalidFile if it is missing or of other weights."""
    again = _command(model, precision)
    exported = _read(model / FOLDER / FILE, again)
    if exported is None or precision not in exported.files:
        raise InvalidFile(f"{model} has no ONNX export ({precision})", fix=again)
    if exported.fingerprint != read_config(model).fingerprint:
        raise InvalidFile(
            f"{model / FOLDER} was exported from other weights than {model} holds now", fix=f"export again: {again}"
        )
    return exported


def read_content(model: Path, precision: str, exported: Exported) -> bytes:
    """Read an exported file and check its digest."""
    its = exported.files[precision]
    path, again = (model / FOLDER / its.name(precision), f"export again: {_command(model, precision)}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidFile(f"cannot read {path}: {error.strerror}", fix=again) from error
    if hashlib.sha256(content).hexdigest() != its.sha256:
        raise InvalidFile(f"{path} is damaged", fix=again)
    return content


def _command(model: Path, precision: str) -> str:
    return f"surefind export {model} --onnx" + (" --int8 IMAGES" if precision == "int8" else "")


def _read(path: Path, again: str) -> Exported | None:
    if not path.exists():
        return None
    try:
        facts = load_checksummed_json(path)
    except InvalidFile as error:
        raise InvalidFile(error.problem, fix=f"export again: {again}") from error
    if facts["schema"] != SCHEMA:
        raise InvalidFile(
            f"{path} has schema {facts['schema']!r}, this version reads {SCHEMA}", fix=f"export again: {again}"
        )
    files = {precision: ExportedFile(its["sha256"], its["facts"]) for precision, its in facts["files"].items()}
    return Exported(facts["fingerprint"], files)


def require(name: str) -> ModuleType:
    """Import a module of the extra `onnx`, or raise SurefindError."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise SurefindError(f"{missing.name} is not installed", fix="pip install 'surefind[onnx]'") from missing


def check_exporting() -> None:
    """Raise SurefindError if a package for exporting is missing."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        require(name)
