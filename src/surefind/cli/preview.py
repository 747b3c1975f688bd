"""Small pictures for the terminal: two pixels to a character, one above the other."""

import numpy as np
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from surefind.images.decode import ImageRejected, ImageSource, decode_picture

COLUMNS, LINES = 12, 6  # of characters, which are twice as high as wide
NARROWEST = 72  # terminal in which there is room for pictures beside the rest
_UPPER_HALF = "▀"


def can_show(console: Console) -> bool:
    """Whether pictures would be seen: a terminal that is wide, in true colour, with Unicode."""
    return (
        console.is_terminal
        and console.width >= NARROWEST
        and console.color_system == "truecolor"
        and not console.no_color
        and console.encoding.lower().startswith("utf")
    )


def preview(source: ImageSource | None, *, columns: int = COLUMNS, lines: int = LINES) -> Text:
    """A picture in half blocks; nothing where there is none, or none that can be read."""
    text = Text(no_wrap=True, end="")
    if source is None:
        return text
    try:
        picture = decode_picture(source)
    except ImageRejected:
        return text
    scale = min(columns / picture.width, 2 * lines / picture.height)
    width, height = (max(1, round(side * scale)) for side in picture.size)
    pixels = picture.resize((width, height), reducing_gap=2.0)
    colours = [Color.from_rgb(*pixel) for pixel in np.asarray(pixels).reshape(-1, 3).tolist()]
    for top in range(0, height, 2):
        for column in range(width):
            first, second = top * width + column, (top + 1) * width + column
            below = colours[second] if top + 1 < height else None
            text.append(_UPPER_HALF, Style(color=colours[first], bgcolor=below))
        text.append("\n" if top + 2 < height else "")
    return text
