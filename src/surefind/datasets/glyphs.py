"""Glyphs, the built-in data: images of letters in many fonts, corrupted to a known degree.

Written once as PNG files below a cache folder (`$SUREFIND_CACHE`, else ~/.cache/surefind), with a
table, `images.csv`, of the split and the difficulty of each.
"""

import csv
import json
import os
import shutil
import unicodedata
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from pydantic import Field, NonNegativeInt

from surefind.datasets.splits import Listing
from surefind.datasets.table import read_rows
from surefind.errors import InvalidArgument, InvalidFile
from surefind.validation import check_fields

TABLE, SETTINGS = "images.csv", "glyphs.json"
TEXT_FACES = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique",
    "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique",
    "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic",
    "STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta",
)  # fmt: skip
SYMBOL_FACES = ("DejaVuSans", "STIXGeneral")
PLAIN_FACE = "DejaVuSans"
SYMBOL_BLOCKS = range(0x2190, 0x2C00)  # arrows, maths, technical, shapes, dingbats
ENCLOSED = range(0x2460, 0x2500)  # letters and digits in circles: not foreign to letters
FONT_PX = 48
ALIKE = 0.95  # cosine of two blurred images above which characters count as one
SKETCH_PX = 24
SIZE_PX = 32
INK_PX = 22.0  # the longer side of a character before jitter
# Variation that does not depend on the difficulty.
TILT_DEG = 15.0
SCALE_JITTER = 0.15
SHIFT_PX = 2.5
# Corruption at difficulty 1; less in proportion.
BLUR_PX = 1.8
NOISE = 0.3
BLOCK_PX = 16.0


@dataclass(frozen=True)
class GlyphSettings:
    """Settings that determine every pixel; the version changes with the"""

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
    chosen = letters()
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
    foreign = symbols() if settings.foreign else []
    for number in range(settings.foreign):
        turn, place = divmod(number, len(foreign))
        plan.append(("foreign", foreign[place], turn))
    with (folder / TABLE).open("w", encoding="utf-8", newline="") as text:
        table = csv.writer(text)
        table.writerow(["path", "label", "split", "difficulty"])
        for split, char, number in plan:
            faces = SYMBOL_FACES if split == "foreign" else TEXT_FACES
            image, difficulty = render(char, number, faces=faces, seed=settings.seed)
            label = f"U+{ord(char):04X}"  # safe as a file name where case does not count
            path = f"{split}/{label}/{number:03d}.png"
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            image.save(folder / path, compress_level=1)
            table.writerow([path, label, split, difficulty])
    (folder / SETTINGS).write_text(json.dumps(asdict(settings)), encoding="utf-8")


def render(char: str, number: int, *, faces: tuple[str, ...], seed: int) -> tuple[Image.Image, float]:
    """Return an image and its difficulty, a function of the arguments alone."""
    random = np.random.default_rng(np.random.SeedSequence([seed, ord(char), number]))
    face = faces[random.integers(len(faces))]
    difficulty = round(random.uniform(), 6)
    return draw_glyph(char, face, difficulty=difficulty, random=random), difficulty


def draw_glyph(char: str, face: str, *, difficulty: float, random: np.random.Generator) -> Image.Image:
    """Draw a character dark on light, 32 x 32 grey pixels."""
    page = _place(draw_character(char, face), random)
    ink = np.asarray(page.filter(ImageFilter.GaussianBlur(BLUR_PX * difficulty))) / 255.0
    ink = _cover(ink, BLOCK_PX * difficulty, random)
    ink += random.normal(scale=NOISE, size=ink.shape) * difficulty
    return Image.fromarray(np.uint8(np.round(255 * (1 - ink.clip(0, 1)))))


def _place(ink: Image.Image, random: np.random.Generator) -> Image.Image:
    """Rotate, scale and shift the character, at double resolution."""
    scale = 2 * INK_PX / max(ink.size) * random.uniform(1 - SCALE_JITTER, 1 + SCALE_JITTER)
    turn = np.deg2rad(random.uniform(-TILT_DEG, TILT_DEG))
    back = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]) / scale
    target = SIZE_PX + 2 * random.uniform(-SHIFT_PX, SHIFT_PX, size=2)
    start = np.array(ink.size) / 2 - back @ target
    coefficients = tuple(np.column_stack([back, start]).ravel().tolist())
    page = ink.transform(
        (2 * SIZE_PX, 2 * SIZE_PX), Image.Transform.AFFINE, coefficients, resample=Image.Resampling.BICUBIC
    )
    return page.reduce(2)


def _cover(ink: NDArray[np.float64], side: float, random: np.random.Generator) -> NDArray[np.float64]:
    """Cover part of the character by a grey square."""
    centre = SIZE_PX / 2 + random.uniform(-INK_PX / 3, INK_PX / 3, size=2)
    shade = random.uniform(0.2, 0.8)
    low, high = np.round(centre - side / 2).astype(int), np.round(centre + side / 2).astype(int)
    covered = ink.copy()
    covered[max(0, low[0]) : high[0], max(0, low[1]) : high[1]] = shade
    return covered


def letters() -> list[str]:
    """Letters of all text faces, without those that look like an earlier one (A, Alpha)."""
    return _distinct(_characters(TEXT_FACES, "L"), [])


def symbols() -> list[str]:
    """Symbols of both symbol faces that look like no letter and no earlier symbol."""
    found = [
        char for char in _characters(SYMBOL_FACES, "S") if ord(char) in SYMBOL_BLOCKS and ord(char) not in ENCLOSED
    ]
    return _distinct(found, _characters(TEXT_FACES, "L"))


def draw_character(char: str, face: str) -> Image.Image:
    """Draw a character white on black, without border."""
    font = _font(face)
    left, top, right, bottom = (int(edge) for edge in font.getbbox(char))
    # Some slanted letters exceed the bounding box of the font.
    room = FONT_PX // 4
    image = Image.new("L", (right - left + 2 * room, bottom - top + 2 * room))
    ImageDraw.Draw(image).text((room - left, room - top), char, fill=255, font=font)
    return image.crop(image.getbbox())


def _characters(faces: tuple[str, ...], category: str) -> list[str]:
    """Characters of a Unicode category that all faces have."""
    from matplotlib.ft2font import FT2Font

    codes = set.intersection(*(set(FT2Font(str(_file(face))).get_charmap()) for face in faces))
    return [char for char in map(chr, sorted(codes)) if unicodedata.category(char)[0] == category]


def _distinct(chars: list[str], others: list[str]) -> list[str]:
    """Drop characters that look like one of `others` or like an earlier one."""
    sketches = np.stack([_sketch(char) for char in [*others, *chars]])
    alike = sketches @ sketches.T > ALIKE
    kept = list(range(len(others)))
    for row in range(len(others), len(sketches)):
        if not alike[row, kept].any():
            kept.append(row)
    return [chars[row - len(others)] for row in kept[len(others) :]]


def _sketch(char: str) -> NDArray[np.float64]:
    """Small blurred image as a unit vector."""
    ink = draw_character(char, PLAIN_FACE)
    ink.thumbnail((SKETCH_PX, SKETCH_PX))
    page = Image.new("L", (SKETCH_PX, SKETCH_PX))
    page.paste(ink, ((SKETCH_PX - ink.width) // 2, (SKETCH_PX - ink.height) // 2))
    pixels = np.asarray(page.filter(ImageFilter.GaussianBlur(1)), dtype=np.float64).ravel()
    return pixels / np.linalg.norm(pixels)


@cache
def _font(face: str) -> ImageFont.FreeTypeFont:
    # The basic layout is the same on every machine.
    return ImageFont.truetype(str(_file(face)), FONT_PX, layout_engine=ImageFont.Layout.BASIC)


def _file(face: str) -> Path:
    import matplotlib  # as late as this: it takes a second

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"
