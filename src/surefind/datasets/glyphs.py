"""Built-in data: characters in many faces, spoiled to a known degree; nothing to download.

Written once as PNG files below a cache folder (`$SUREFIND_CACHE`, else ~/.cache/surefind), with
a table of them, `images.csv`, that states the split and the difficulty of each.
"""

import csv
import json
import os
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from uuid import uuid4

from surefind.datasets.glyph_settings import GlyphSettings
from surefind.datasets.rows import rows_catalog, rows_splits
from surefind.datasets.splits import HoldOut, Splits
from surefind.errors import InvalidFile
from surefind.images.catalog import Catalog

TABLE, SETTINGS = "images.csv", "glyphs.json"


def glyphs(folder: Path | None = None) -> Splits:
    """The built-in data of usual size, drawn if it is not there yet."""
    return glyphs_splits(folder or glyphs_folder(), hold_out=HoldOut())


def glyphs_folder() -> Path:
    cache = os.environ.get("SUREFIND_CACHE")
    return (Path(cache) if cache else Path.home() / ".cache" / "surefind") / "glyphs-v1"


def glyphs_catalog(folder: Path) -> Catalog:
    return rows_catalog(draw_glyphs(folder) / TABLE)


def glyphs_splits(folder: Path, *, hold_out: HoldOut) -> Splits:
    """The data has a validation part of its own, so that nothing is held out."""
    return replace(rows_splits(draw_glyphs(folder) / TABLE, hold_out=hold_out), name="glyphs")


def draw_glyphs(
    folder: Path, *, classes: int = 320, per_class: int = 28, foreign: int = 600, seed: int = 0
) -> Path:
    """Write the data into a folder, whole or not at all; finished data is used as it is.

    5/8 of the classes are to train on, 1/8 to validate on, 1/4 to test on.
    """
    settings = GlyphSettings(classes, per_class=per_class, foreign=foreign, seed=seed)
    if _is_finished(folder, settings):
        return folder
    unfinished = folder.with_name(f".{folder.name}.{uuid4().hex}.part")
    try:
        unfinished.mkdir(parents=True)
        _write(unfinished, settings)
        _put_in_place(unfinished, folder, settings)
    except OSError as error:
        raise InvalidFile(
            f"{folder}: glyphs cannot be written: {error}",
            fix="free 50 MB, or choose another place: glyphs:FOLDER, or SUREFIND_CACHE",
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _is_finished(folder: Path, settings: GlyphSettings) -> bool:
    """Whether the same data is there; anything else that is there is an error."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        found = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidFile(
            f"{folder}: not empty, and holds no glyphs", fix="name a new folder"
        ) from error
    if found != asdict(settings):
        raise InvalidFile(
            f"{folder}: holds glyphs drawn with other settings: {found}",
            fix="name another folder, or delete this one",
        )
    missing = [path for path in rows_catalog(folder / TABLE).files if not path.is_file()]
    if missing:
        raise InvalidFile(
            f"{folder}: {len(missing)} glyphs are missing, such as {missing[0]}",
            fix="delete the folder; it is then drawn again",
        )
    return True


def _write(folder: Path, settings: GlyphSettings) -> None:
    # Here, because fonts load matplotlib, which opening any other data does not need.
    from surefind.datasets.glyph_plan import draw, plan

    with (folder / TABLE).open("w", encoding="utf-8", newline="") as text:
        table = csv.writer(text)
        table.writerow(["path", "label", "split", "difficulty"])
        for glyph in plan(settings):
            image, difficulty = draw(glyph, settings.seed)
            file = folder / glyph.path
            if glyph.number == 0:
                file.parent.mkdir(parents=True)
            image.save(file, compress_level=1)
            table.writerow([glyph.path, glyph.label, glyph.part, difficulty])
    (folder / SETTINGS).write_text(json.dumps(asdict(settings)), encoding="utf-8")


def _put_in_place(unfinished: Path, folder: Path, settings: GlyphSettings) -> None:
    """Another process may have drawn the same data meanwhile; then that one stays."""
    try:
        unfinished.replace(folder)
    except OSError:
        if not _is_finished(folder, settings):
            raise
