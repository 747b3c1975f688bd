"""ONNX files of a model folder, onnx/export.json that names them, and the packages of the extra."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import surefind
from surefind.encoders.serialization import checksum, read_config
from surefind.errors import InvalidFile, SurefindError
from surefind.storage import make_writable, write_whole

SCHEMA = 1
FOLDER, FILE = "onnx", "export.json"
PRECISIONS = ("fp32", "int8")
PIXELS, MEAN, VAR = "pixels", "embedding_mean", "embedding_var"  # as the graph calls them


@dataclass(frozen=True)
class ExportedFile:
    """One exported file, as it was when it was written."""

    sha256: str
    facts: dict[str, Any]  # how far it is from the model, and from which images that is known

    def name(self, precision: str) -> str:
        """Name the file by its content: a new one never replaces one that is in use."""
        stem = "model" if precision == "fp32" else f"model_{precision}"
        return f"{stem}-{self.sha256[:16]}.onnx"


@dataclass(frozen=True)
class Exported:
    """What export.json tells."""

    fingerprint: str  # of the model that was exported
    files: dict[str, ExportedFile]  # by precision

    def fingerprint_of(self, precision: str) -> str:
        """The model's own where the numbers are the same; whole numbers have another."""
        if precision == "fp32":
            return self.fingerprint
        return f"{self.fingerprint}-{precision}-{self.files[precision].sha256[:12]}"


def write_export(
    model: Path, fingerprint: str, made: Mapping[str, tuple[bytes, dict[str, Any]]]
) -> Exported:
    """Write files by precision; whenever this stops, the older export or the new one is whole.

    export.json is replaced when the files that it names are there; then files that it does not
    name are removed. What was exported before of the same model, and not now, stays.
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
    said: dict[str, Any] = {
        "schema": SCHEMA,
        "surefind": surefind.__version__,
        "fingerprint": fingerprint,
        "files": {
            precision: {"file": its.name(precision), "sha256": its.sha256, "facts": its.facts}
            for precision, its in files.items()
        },
    }
    said["checksum"] = checksum(said)
    write_whole(folder / FILE, (json.dumps(said, indent=2) + "\n").encode())
    named = {its.name(precision) for precision, its in files.items()}
    for left_over in folder.glob("model*-*.onnx"):
        if left_over.name not in named:
            with suppress(OSError):  # it is in nobody's way, and goes with the next export
                left_over.unlink()
    return Exported(fingerprint, files)


def read_export(model: Path, precision: str) -> Exported:
    """What was exported of a model, if this is of the weights that the folder holds now."""
    again = _command(model, precision)
    exported = _read(model / FOLDER / FILE, again)
    if exported is None or precision not in exported.files:
        raise InvalidFile(f"{model} has no ONNX export ({precision})", fix=again)
    if exported.fingerprint != read_config(model).fingerprint:
        raise InvalidFile(
            f"{model / FOLDER} was exported from other weights than {model} holds now",
            fix=f"export again: {again}",
        )
    return exported


def read_content(model: Path, precision: str, exported: Exported) -> bytes:
    """The bytes of an exported file, which are those that were written."""
    its = exported.files[precision]
    path, again = (
        model / FOLDER / its.name(precision),
        f"export again: {_command(model, precision)}",
    )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidFile(f"cannot read {path}: {error.strerror}", fix=again) from error
    if hashlib.sha256(content).hexdigest() != its.sha256:
        raise InvalidFile(f"{path} is damaged: it is not the file that was exported", fix=again)
    return content


def _command(model: Path, precision: str) -> str:
    return f"surefind export {model} --onnx" + (" --int8 IMAGES" if precision == "int8" else "")


def _read(path: Path, again: str) -> Exported | None:
    """None where nothing was exported."""
    try:
        facts = json.loads(path.read_bytes())
        if facts["checksum"] != checksum(facts):
            raise ValueError("it was changed after it was written")
        if facts["schema"] != SCHEMA:
            raise ValueError(f"schema {facts['schema']!r}, this version reads {SCHEMA}")
        files = {
            precision: ExportedFile(its["sha256"], its["facts"])
            for precision, its in facts["files"].items()
        }
        return Exported(facts["fingerprint"], files)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidFile(
            f"{path} cannot be used: {error}", fix=f"export again: {again}"
        ) from error


def require(name: str) -> ModuleType:
    """Import a module of the extra `onnx`, or say how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise SurefindError(
            f"{missing.name} is not installed", fix="pip install 'surefind[onnx]'"
        ) from missing


def check_exporting() -> None:
    """Raise SurefindError if a package is missing that exporting needs."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        require(name)
