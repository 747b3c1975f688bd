"""Folders that are written to: room, and the right to write; and the fonts of the glyphs."""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

from surefind.doctor.finding import Finding, fine, tried
from surefind.doctor.machine import size

LEAST_ROOM = 2**30  # bytes
ROOM = "free some space, or work on another disk"


def places() -> list[Finding]:
    """This folder, the one for temporary files, and the caches; then the fonts."""
    known = {
        "this folder": (Path.cwd(), "work in a folder that you may write to"),
        "temporary files": (Path(tempfile.gettempdir()), "export TMPDIR=FOLDER"),
        "drawn glyphs": (_glyphs(), "export SUREFIND_CACHE=FOLDER"),
        "weights of the hub": (_hub(), "export HF_HOME=FOLDER"),
    }
    found = [
        tried(what, partial(_place, what, folder, fix=fix), fix=fix)
        for what, (folder, fix) in known.items()
    ]
    return [
        *found,
        tried("fonts of glyphs", _fonts, fix="pip install --force-reinstall matplotlib"),
    ]


def _place(what: str, folder: Path, *, fix: str) -> Finding:
    """A folder that is not there is made when it is needed, in the nearest that is."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(what, "poor", f"{folder}: {there} cannot be written to", fix)
    free = shutil.disk_usage(there).free
    seen = f"{folder}, {size(free)} free"
    return Finding(what, "poor", seen, ROOM) if free < LEAST_ROOM else fine(what, seen)


def _glyphs() -> Path:
    from surefind.datasets.glyphs import glyphs_folder

    return glyphs_folder().parent


def _hub() -> Path:
    """Where huggingface_hub keeps what it fetches; to ask it would load half of it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HF_HOME") or cache / "huggingface")


def _fonts() -> Finding:
    from surefind.datasets.glyph_faces import SYMBOL_FACES, TEXT_FACES, draw_character

    faces = dict.fromkeys((*TEXT_FACES, *SYMBOL_FACES))
    for face in faces:
        draw_character("a" if face in TEXT_FACES else "\N{RIGHTWARDS ARROW}", face)
    return fine("fonts of glyphs", f"{len(faces)} faces, each draws a character")
