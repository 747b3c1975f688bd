"""What is uploaded of a model folder: the model's own files and its card, nothing else."""

from pathlib import Path

from surefind.encoders.card import Told, model_card, read_told
from surefind.encoders.classes import read_classes
from surefind.encoders.hub import HubId
from surefind.encoders.measured import Measured
from surefind.encoders.onnx import files as export
from surefind.encoders.saving import CARD, Saved, model_files, read_config
from surefind.encoders.shared_card import shared_card
from surefind.errors import InvalidFile


def pack(
    folder: Path, hub_id: HubId, *, measured: Measured | None = None, onnx: bool = False
) -> dict[str, Path | bytes]:
    """Names on the hub and their contents; checked weights are the caller's concern."""
    saved = read_config(folder)
    told = read_told(folder / CARD)._replace(classes=len(read_classes(folder)))
    card = shared_card(
        _card(folder, saved, told), hub_id.repo, config=saved.config, told=told, measured=measured
    )
    model: dict[str, Path | bytes] = {CARD: card.encode(), **model_files(folder, saved)}
    return model | _exported(folder) if onnx else model


def size(content: Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _exported(folder: Path) -> dict[str, Path | bytes]:
    """What `surefind export` wrote, if it is of these weights and whole."""
    exported = export.read_export(folder, "fp32")
    files: dict[str, Path | bytes] = {
        f"{export.FOLDER}/{export.NAMES[precision]}": export.read_content(
            folder, precision, exported
        )
        for precision in exported.files
    }
    return files | {f"{export.FOLDER}/{export.FILE}": folder / export.FOLDER / export.FILE}


def _card(folder: Path, saved: Saved, told: Told) -> str:
    path = folder / CARD
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return model_card(saved.config, saved.fingerprint, told)
    except (OSError, ValueError) as error:
        raise InvalidFile(
            f"cannot read the model card {path}: {error}",
            fix="correct it, or delete it for a new one",
        ) from error
