"""Model folders: config.json, model.safetensors, classes.json, the model card and ONNX exports."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor

import surefind
from surefind.encoders.backbone import check_backbone, read_tensors
from surefind.encoders.config import EncoderConfig
from surefind.errors import InvalidArgument, InvalidFile
from surefind.storage import dump_checksummed_json, load_checksummed_json, make_writable, write_whole

SCHEMA = 2
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
CLASSES = "classes.json"
ONNX, EXPORT = "onnx", "export.json"  # the folder of exports, and their index
EXPORT_SCHEMA = 1
PRECISIONS = ("fp32", "int8")
_SAVE_AGAIN = "save the model again, or restore the folder from a copy"


class Saved(NamedTuple):
    """Content of config.json."""

    config: EncoderConfig
    fingerprint: str


def fingerprint(config: EncoderConfig, tensors: Mapping[str, Tensor]) -> str:
    """Hash (sha256) the configuration and every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(_canonical(asdict(config)))
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(_canonical([name, str(tensor.dtype), list(tensor.shape)]))
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _canonical(value: object) -> bytes:
    """Canonical JSON, ended by a newline."""
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def write_model(folder: Path, config: EncoderConfig, tensors: Mapping[str, Tensor], *, card: str) -> None:
    """Write a model; an interruption at any point leaves the old model or the new one.

    The new weights have a temporary name until config.json, with their fingerprint, has been
    replaced. Other files in the folder are not changed.
    """
    made = fingerprint(config, tensors)
    facts = {"schema": SCHEMA, "surefind": surefind.__version__, "fingerprint": made, "config": asdict(config)}
    weights = to_safetensors({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
    temporary = _temporary(folder, made)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(temporary, weights)
        write_whole(folder / CONFIG, dump_checksummed_json(facts))
        temporary.replace(folder / WEIGHTS)
        write_whole(folder / CARD, card.encode(errors="replace"))
        for left_over in folder.glob(_temporary(folder, "*").name):
            left_over.unlink()
    except OSError as error:
        raise InvalidFile(f"cannot write the model to {folder}: {error.strerror}") from error


def read_config(folder: Path) -> Saved:
    """Read and check config.json."""
    path = folder / CONFIG
    if not path.exists():
        raise InvalidFile(
            f"{folder} holds no model: {path.name} is missing",
            fix="use the folder that Encoder.save or `surefind train` wrote",
        )
    facts = load_checksummed_json(path)
    if (found := facts.get("schema")) != SCHEMA:
        raise InvalidFile(f"{path} has schema {found!r}, this version reads {SCHEMA}")
    try:
        config = EncoderConfig.from_dict(facts["config"])
        check_backbone(config.backbone)
    except InvalidArgument as error:  # of a backbone that this version of timm does not have
        raise InvalidFile(f"{path}: {error.problem}", fix=error.fix) from error
    return Saved(config, facts["fingerprint"])


def read_weights(folder: Path, saved: Saved, wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Read the tensors of a saved model and check their fingerprint."""
    path = _weights(folder, saved)
    tensors = read_tensors(path, wanted)
    if fingerprint(saved.config, tensors) != saved.fingerprint:
        raise InvalidFile(f"{path} does not belong to {folder / CONFIG}, or is damaged", fix=_SAVE_AGAIN)
    return tensors


def model_files(folder: Path, saved: Saved) -> dict[str, Path]:
    """Files of the model by name, without its card."""
    files = {CONFIG: folder / CONFIG, WEIGHTS: _weights(folder, saved), CLASSES: folder / CLASSES}
    return {name: path for name, path in files.items() if path.is_file()}


def class_hashes(labels: Iterable[object]) -> frozenset[str]:
    """Hash the names of training classes, which may be private."""
    return frozenset(hashlib.sha256(str(label).encode()).hexdigest()[:16] for label in set(labels))


def write_classes(folder: Path, codes: frozenset[str]) -> None:
    if codes:
        write_whole(folder / CLASSES, (json.dumps(sorted(codes)) + "\n").encode())
    else:
        (folder / CLASSES).unlink(missing_ok=True)


def read_classes(folder: Path) -> frozenset[str]:
    """Read the hashes of the training classes; empty if there is no such file."""
    path = folder / CLASSES
    try:
        codes = json.loads(path.read_bytes())
        if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
            raise ValueError("not a list of texts")
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidFile(
            f"{path} is not a list of class hashes",
            fix="restore or delete it: it serves only a warning when calibrating",
        ) from error
    return frozenset(codes)


def _temporary(folder: Path, made: str) -> Path:
    return folder / f".model-{made}.safetensors"


def _weights(folder: Path, saved: Saved) -> Path:
    """File of the weights of config.json, also if saving was interrupted."""
    temporary = _temporary(folder, saved.fingerprint)
    return temporary if temporary.exists() else folder / WEIGHTS


class Exported(NamedTuple):
    """Content of export.json."""

    fingerprint: str  # of the model that was exported
    digests: dict[str, str]  # sha256 by precision
    facts: dict[str, dict[str, Any]]  # parity, and the images that measured it

    def name(self, precision: str) -> str:
        """File name by content, so that a new export never replaces a file in use."""
        return f"{'model' if precision == 'fp32' else 'model_int8'}-{self.digests[precision][:16]}.onnx"

    def fingerprint_of(self, precision: str) -> str:
        """Fingerprint of the embeddings: the model's own for fp32, another for int8."""
        return self.fingerprint + ("" if precision == "fp32" else f"-int8-{self.digests[precision][:12]}")


def write_export(model: Path, fingerprint: str, made: Mapping[str, tuple[bytes, dict[str, Any]]]) -> Exported:
    """Write files by precision; an interruption at any point leaves the old or the new export.

    export.json is replaced after the files are written; then files that it does not name are
    removed. Other precisions of the same model stay.
    """
    folder = model / ONNX
    make_writable(folder)
    exported = Exported(fingerprint, {}, {})
    with suppress(InvalidFile):
        earlier = _read_export(folder / EXPORT, "")
        if earlier is not None and earlier.fingerprint == fingerprint:
            exported = earlier
    for precision, (content, facts) in made.items():
        exported.digests[precision], exported.facts[precision] = hashlib.sha256(content).hexdigest(), facts
        write_whole(folder / exported.name(precision), content)
    files = {
        precision: {"file": exported.name(precision), "sha256": digest, "facts": exported.facts[precision]}
        for precision, digest in exported.digests.items()
    }
    said = {"schema": EXPORT_SCHEMA, "surefind": surefind.__version__, "fingerprint": fingerprint, "files": files}
    write_whole(folder / EXPORT, dump_checksummed_json(said))
    for left_over in set(folder.glob("model*-*.onnx")) - {folder / exported.name(name) for name in files}:
        with suppress(OSError):  # the next export removes it
            left_over.unlink()
    return exported


def read_export(model: Path, precision: str) -> Exported:
    """Read export.json; raise InvalidFile if it is missing or of other weights."""
    again = _export_command(model, precision)
    exported = _read_export(model / ONNX / EXPORT, again)
    if exported is None or precision not in exported.digests:
        raise InvalidFile(f"{model} has no ONNX export ({precision})", fix=again)
    if exported.fingerprint != read_config(model).fingerprint:
        raise InvalidFile(
            f"{model / ONNX} was exported from other weights than {model} holds now", fix=f"export again: {again}"
        )
    return exported


def read_content(model: Path, precision: str, exported: Exported) -> bytes:
    """Read an exported file and check its digest."""
    path, again = model / ONNX / exported.name(precision), f"export again: {_export_command(model, precision)}"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidFile(f"cannot read {path}: {error.strerror}", fix=again) from error
    if hashlib.sha256(content).hexdigest() != exported.digests[precision]:
        raise InvalidFile(f"{path} is damaged", fix=again)
    return content


def _export_command(model: Path, precision: str) -> str:
    return f"surefind export {model} --onnx" + (" --int8 IMAGES" if precision == "int8" else "")


def _read_export(path: Path, again: str) -> Exported | None:
    if not path.exists():
        return None
    try:
        facts = load_checksummed_json(path)
    except InvalidFile as error:
        raise InvalidFile(error.problem, fix=f"export again: {again}") from error
    if facts["schema"] != EXPORT_SCHEMA:
        raise InvalidFile(
            f"{path} has schema {facts['schema']!r}, this version reads {EXPORT_SCHEMA}", fix=f"export again: {again}"
        )
    digests, more = ({name: its[key] for name, its in facts["files"].items()} for key in ("sha256", "facts"))
    return Exported(facts["fingerprint"], digests, more)
