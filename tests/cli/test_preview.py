"""Small pictures in the terminal."""

import io

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from surefind.cli.output import can_show
from surefind.cli.rendering import PREVIEW_COLUMNS as COLUMNS
from surefind.cli.rendering import PREVIEW_LINES as LINES
from surefind.cli.rendering import preview


def picture(width: int, height: int) -> Image.Image:
    """Red above, blue below."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[: height // 2, :, 0] = 255
    pixels[height // 2 :, :, 2] = 255
    return Image.fromarray(pixels)


def drawn(source: object) -> str:
    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="truecolor", width=40, _environ={}
    )
    console.print(preview(source))
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("size", "columns", "lines"),
    [
        ((100, 100), COLUMNS, LINES),
        ((200, 100), COLUMNS, LINES // 2),
        ((100, 200), COLUMNS // 2, LINES),
        ((60_000, 1), COLUMNS, 1),
        ((1, 60_000), 1, LINES),
    ],
)
def test_a_picture_keeps_its_proportions_and_fits(size, columns: int, lines: int):
    shown = preview(picture(*size)).plain.split("\n")
    assert len(shown) == lines
    assert all(line == "▀" * columns for line in shown)


def test_a_character_shows_two_pixels():
    first, *_, last = drawn(picture(12, 12)).splitlines()
    assert "38;2;255;0;0;48;2;255;0;0" in first
    assert "38;2;0;0;255;48;2;0;0;255" in last


def test_an_odd_last_row_has_nothing_below():
    last = drawn(picture(12, 9)).splitlines()[-1]
    assert "38;2;0;0;255m" in last
    assert "48;2" not in last


@pytest.mark.parametrize("source", [None, "nowhere.jpg", b"no picture"])
def test_what_cannot_be_read_is_shown_as_nothing(source):
    assert preview(source).plain == ""


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({}, True),
        ({"force_terminal": False}, False),
        ({"color_system": "256"}, False),
        ({"no_color": True}, False),
        ({"width": 60}, False),
        ({"file": io.TextIOWrapper(io.BytesIO(), "ascii")}, False),
    ],
)
def test_pictures_are_for_wide_terminals_with_true_colour_and_unicode(changed: dict, shown: bool):
    options = {"force_terminal": True, "color_system": "truecolor", "width": 80, "_environ": {}}
    options |= {"file": io.TextIOWrapper(io.BytesIO(), "utf-8")}
    assert can_show(Console(**options | changed)) is shown
