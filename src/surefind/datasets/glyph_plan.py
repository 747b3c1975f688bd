"""Which glyphs make up the data: classes, parts, and the random numbers of each image."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from PIL import Image

from surefind.datasets.glyph_drawing import draw_glyph
from surefind.datasets.glyph_faces import SYMBOL_FACES, TEXT_FACES, letters, symbols
from surefind.datasets.glyph_settings import GlyphSettings
from surefind.errors import InvalidArgument


class Glyph(NamedTuple):
    """One image: which character, in which part, the how-manieth of it."""

    char: str
    part: str
    number: int

    @property
    def label(self) -> str:
        return f"U+{ord(self.char):04X}"  # safe as a file name where case does not count

    @property
    def path(self) -> str:
        return f"{self.part}/{self.label}/{self.number:03d}.png"


def plan(settings: GlyphSettings) -> Iterator[Glyph]:
    """Every image of the data, classes in random order."""
    chosen = letters()
    if settings.classes > len(chosen):
        raise InvalidArgument(
            "classes",
            expected=f"at most {len(chosen)}, the letters that can be told apart",
            got=str(settings.classes),
            fix="leave it out for the usual size",
        )
    order = np.random.default_rng(settings.seed).permutation(len(chosen))[: settings.classes]
    for place, row in enumerate(order):
        share = place / settings.classes
        part = "train" if share < 5 / 8 else "val" if share < 6 / 8 else "test"
        for number in range(settings.per_class):
            yield Glyph(chosen[row], part, number)
    if settings.foreign:
        strange = symbols()
        for number in range(settings.foreign):
            yield Glyph(strange[number % len(strange)], "foreign", number // len(strange))


def draw(glyph: Glyph, seed: int) -> tuple[Image.Image, float]:
    """The image and its difficulty. Its random numbers are its own: no other image matters."""
    random = np.random.default_rng(np.random.SeedSequence([seed, ord(glyph.char), glyph.number]))
    faces = SYMBOL_FACES if glyph.part == "foreign" else TEXT_FACES
    face = faces[random.integers(len(faces))]
    difficulty = round(random.uniform(), 6)
    return draw_glyph(glyph.char, face, difficulty=difficulty, random=random), difficulty
