"""What an export leaves in a model folder: onnx/model.onnx, onnx/model_int8.onnx, export.json."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import surefind
from surefind.encoders.fingerprint import canonical
from surefind.encoders.saving import read_config
from surefind.errors import InvalidFile
from surefind.files import make_writable, write_whole

SCHEMA = 1
FOLDER, FILE = "onnx", "export.json"
NAMES = {"fp32": "model.onnx", "int8": "model_int8.onnx"}  # by precision
PIXELS, MEAN, VAR = "pixels", "embedding_mean", "embedding_var"  # as the graph calls them


@dataclass(frozen=True)
class Written:
    """One exported file, as it was when it was written."""

    sha256: str
    facts: dict[str, Any]  # how far it is from the model, and from which images that is known


@dataclass(frozen=True)
class Exported:
    """What export.json tells."""

    fingerprint: str  # of the model that was exported
    files: dict[str, Written]  # by precision

    def fingerprint_of(self, precision: str) -> str:
        """The model's own where the numbers are the same; whole numbers have another."""
        if precision == "fp32":
            return self.fingerprint
        return f"{self.fingerprint}-{precision}-{self.files[precision].sha256[:12]}"


def write_export(
    model: Path, fingerprint: str, made: Mapping[str, tuple[bytes, dict[str, Any]]]
) -> Exported:
    """Write files by precision; whenever this stops, the older export or the new one is whole.

    New files wait under names of their own until export.json, which knows them by their content,
    has been replaced. What was exported before of the same model, and not now, stays.
    """
    folder = model / FOLDER
    make_writable(folder)
    files = _still_valid(model, fingerprint)
    for precision, (content, facts) in made.items():
        digest = hashlib.sha256(content).hexdigest()
        write_whole(_waiting(folder, precision, digest), content)
        files[precision] = Written(digest, facts)
    exported = Exported(fingerprint, files)
    write_whole(folder / FILE, _as_json(exported))
    _settle(folder, exported)
    return exported


def read_export(model: Path, precision: str) -> Exported:
    """What was exported of a model, if this is of the weights that the folder holds now."""
    again = export_command(model, precision)
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
    folder, digest = model / FOLDER, exported.files[precision].sha256
    waiting = _waiting(folder, precision, digest)
    path = waiting if waiting.exists() else folder / NAMES[precision]
    again = f"export again: {export_command(model, precision)}"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidFile(f"cannot read {path}: {error.strerror}", fix=again) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise InvalidFile(f"{path} is damaged: it is not the file that was exported", fix=again)
    return content


def export_command(model: Path, precision: str) -> str:
    return f"surefind export {model} --onnx" + (" --int8 IMAGES" if precision == "int8" else "")


def _still_valid(model: Path, fingerprint: str) -> dict[str, Written]:
    """What an earlier export of the same model left; nothing where it cannot be read."""
    try:
        earlier = _read(model / FOLDER / FILE, "")
    except InvalidFile:
        return {}
    if earlier is None or earlier.fingerprint != fingerprint:
        return {}
    _settle(model / FOLDER, earlier)  # one that was stopped at its end
    return {name: its for name, its in earlier.files.items() if name in NAMES}


def _settle(folder: Path, exported: Exported) -> None:
    """Give the files their names, and remove what belongs to no export."""
    try:
        for precision, name in NAMES.items():
            if precision not in exported.files:
                (folder / name).unlink(missing_ok=True)
                continue
            waiting = _waiting(folder, precision, exported.files[precision].sha256)
            if waiting.exists():
                waiting.replace(folder / name)
        for left_over in folder.glob(_waiting(folder, "*", "*").name):
            left_over.unlink()
    except OSError as error:
        raise InvalidFile(
            f"cannot write {folder}: {error.strerror}", fix="choose a writable folder"
        ) from error


def _waiting(folder: Path, precision: str, digest: str) -> Path:
    return folder / f".{precision}-{digest}.onnx"


def _as_json(exported: Exported) -> bytes:
    facts: dict[str, Any] = {
        "schema": SCHEMA,
        "surefind": surefind.__version__,
        "fingerprint": exported.fingerprint,
        "files": {name: asdict(its) for name, its in exported.files.items()},
    }
    facts["checksum"] = _checksum(facts)
    return (json.dumps(facts, indent=2) + "\n").encode()


def _read(path: Path, again: str) -> Exported | None:
    """None where nothing was exported."""
    try:
        facts = json.loads(path.read_bytes())
        if facts["checksum"] != _checksum(facts):
            raise ValueError("it was changed after it was written")
        if facts["schema"] != SCHEMA:
            raise ValueError(f"schema {facts['schema']!r}, this version reads {SCHEMA}")
        files = {name: Written(**its) for name, its in facts["files"].items()}
        return Exported(facts["fingerprint"], files)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidFile(
            f"{path} cannot be used: {error}", fix=f"export again: {again}"
        ) from error


def _checksum(facts: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in facts.items() if name != "checksum"}
    return hashlib.sha256(canonical(rest)).hexdigest()
