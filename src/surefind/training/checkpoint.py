"""The state of a run on disk, written whole or not at all, read without running any code."""

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from surefind.errors import InvalidFile
from surefind.files import write_whole

VERSION = 1
ZIP = b"PK\x03\x04"  # how a file of torch.save begins


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Tensors and plain values only; the older file stays until the new one is on disk."""
    whole = io.BytesIO()
    torch.save({"version": VERSION, **state}, whole)
    fix = "free some space or make the folder writable, then go on with --resume"
    write_whole(path, whole.getbuffer(), fix=fix)


def load_state(path: Path) -> dict[str, Any]:
    """A state written by `save_state`; pickled code is refused."""
    try:
        with path.open("rb") as file:
            if file.read(len(ZIP)) != ZIP:  # torch's older formats are plain pickles
                raise ValueError("not a zip file")
            file.seek(0)
            state = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InvalidFile(
            f"there is nothing to resume: {path} does not exist", fix="train without --resume"
        ) from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise InvalidFile(
            f"{path} is not a readable state of a training run",
            fix="train anew without --resume; the last good model beside it is untouched",
        ) from error
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise InvalidFile(
            f"{path} was written by another version", fix="train anew without --resume"
        )
    return state
