"""Glyphs, the built-in data: images of letters in many fonts, corrupted to a known degree.

Written once as PNG files below a cache folder (`$SUREFIND_CACHE`, else ~/.cache/surefind), with a
table, `images.csv`, of the split and the difficulty of each.
"""

import csv
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import numpy as np
from pydantic import Field, NonNegativeInt

from surefind.datasets.splits import Listing
from surefind.datasets.table import read_rows
from surefind.errors import InvalidArgument, InvalidFile
from surefind.validation import check_fields

TABLE, SETTINGS = "images.csv", "glyphs.json"


@dataclass(frozen=True)
class GlyphSettings:
    """Settings that determine every pixel; the version changes with the drawing."""

    classes: Annotated[int, Field(ge=16)] = 320  # 5/8 to train, 1/8 to validate, 1/4 to test on
    per_class: Annotated[int, Field(ge=2)] = 28
    foreign: NonNegativeInt = 600  # images of symbols, which are no letters
    seed: NonNegativeInt = 0
    version: int = 1

    def __post_init__(self) -> None:
        check_fields(self)


def glyphs_folder() -> Path:
    cache = os.environ.get("SUREFIND_CACHE")
    return (Path(cache) if cache else Path.home() / ".cache" / "surefind") / "glyphs-v1"


def read_glyphs(folder: Path) -> Listing:
    return read_rows(draw_glyphs(folder) / TABLE)._replace(name="glyphs")


def draw_glyphs(folder: Path, *, classes: int = 320, per_class: int = 28, foreign: int = 600, seed: int = 0) -> Path:
    """Write the data into a folder, completely or not at all; existing data is reused."""
    settings = GlyphSettings(classes, per_class=per_class, foreign=foreign, seed=seed)
    if _is_finished(folder, settings):
        return folder
    unfinished = folder.with_name(f".{folder.name}.{uuid4().hex}.part")
    try:
        unfinished.mkdir(parents=True)
        _write(unfinished, settings)
        try:
            unfinished.replace(folder)
        except OSError:  # another process may have drawn the same data meanwhile
            if not _is_finished(folder, settings):
                raise
    except OSError as error:
        raise InvalidFile(
            f"{folder}: glyphs cannot be written: {error}",
            fix="free 50 MB, or choose another folder: glyphs:FOLDER, or SUREFIND_CACHE",
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _is_finished(folder: Path, settings: GlyphSettings) -> bool:
    """Whether the folder holds this data; raise InvalidFile if it holds anything else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        found = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidFile(f"{folder}: not empty, and holds no glyphs") from error
    if found != asdict(settings):
        raise InvalidFile(f"{folder}: holds glyphs drawn with other settings: {found}")
    missing = [path for path in read_rows(folder / TABLE).catalog.files if not path.is_file()]
    if missing:
        raise InvalidFile(
            f"{folder}: {len(missing)} glyphs are missing, such as {missing[0]}",
            fix="delete the folder, to have it drawn again",
        )
    return True


def _write(folder: Path, settings: GlyphSettings) -> None:
    from surefind.datasets import _glyph_rendering as drawing  # loads matplotlib

    chosen = drawing.letters()
    if settings.classes > len(chosen):
        raise InvalidArgument(
            "classes", expected=f"at most {len(chosen)}, the number of distinct letters", got=str(settings.classes)
        )
    order = np.random.default_rng(settings.seed).permutation(len(chosen))[: settings.classes]
    plan: list[tuple[str, str, int]] = []  # split, character, number
    for place, row in enumerate(order):
        share = place / settings.classes
        split = "train" if share < 5 / 8 else "val" if share < 6 / 8 else "test"
        plan += [(split, chosen[row], number) for number in range(settings.per_class)]
    foreign = drawing.symbols() if settings.foreign else []
    for number in range(settings.foreign):
        turn, place = divmod(number, len(foreign))
        plan.append(("foreign", foreign[place], turn))
    with (folder / TABLE).open("w", encoding="utf-8", newline="") as text:
        table = csv.writer(text)
        table.writerow(["path", "label", "split", "difficulty"])
        for split, char, number in plan:
            faces = drawing.SYMBOL_FACES if split == "foreign" else drawing.TEXT_FACES
            image, difficulty = drawing.render(char, number, faces=faces, seed=settings.seed)
            label = f"U+{ord(char):04X}"  # safe as a file name where case does not count
            path = f"{split}/{label}/{number:03d}.png"
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            image.save(folder / path, compress_level=1)
            table.writerow([path, label, split, difficulty])
    (folder / SETTINGS).write_text(json.dumps(asdict(settings)), encoding="utf-8")
