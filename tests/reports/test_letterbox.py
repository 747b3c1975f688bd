"""Black bars are measured, and tell data sets apart only where they differ."""

import io
from math import isnan
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from surefind.reports.letterbox import bar_widths, bars_auroc


def picture(
    random: np.random.Generator, *, top: int = 0, bottom: int = 0, left: int = 0, right: int = 0
) -> Image.Image:
    """40 high and 50 wide, never black but in its bars."""
    pixels = random.integers(40, 256, (40, 50, 3), dtype=np.uint8)
    pixels[:top] = pixels[40 - bottom :] = pixels[:, :left] = pixels[:, 50 - right :] = 0
    return Image.fromarray(pixels)


def folder(path: Path, count: int, *, seed: int, bars: tuple[int, int]) -> list[Path]:
    """Pictures with bars of random height at the top and bottom."""
    random = np.random.default_rng(seed)
    path.mkdir()
    files = [path / f"{number}.png" for number in range(count)]
    for file in files:
        top, bottom = random.integers(*bars, size=2)
        picture(random, top=top, bottom=bottom).save(file)
    return files


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def test_each_side_is_measured_as_a_share(random: np.random.Generator):
    framed = picture(random, top=4, bottom=8, left=5, right=10)
    assert bar_widths(np.asarray(framed)).tolist() == [0.1, 0.2, 0.1, 0.2]


def test_a_black_image_is_all_bar():
    assert bar_widths(np.zeros((5, 7, 3), np.uint8)).tolist() == [1, 1, 1, 1]


def test_a_single_bright_pixel_ends_a_bar():
    pixels = np.zeros((40, 500, 3), np.uint8)
    pixels[10, 250] = 60
    assert bar_widths(pixels)[0] == 0.25


@pytest.mark.parametrize("quality", [50, 75, 95])
def test_bars_survive_jpeg(quality: int):
    ramp = np.linspace(40, 250, 240 * 320 * 3).reshape(240, 320, 3).astype(np.uint8)
    ramp[:48] = ramp[192:] = 0
    file = io.BytesIO()
    Image.fromarray(ramp).save(file, "JPEG", quality=quality)
    assert bar_widths(np.asarray(Image.open(file))) == pytest.approx([0.2, 0.2, 0, 0], abs=0.01)


def test_differently_padded_data_are_told_apart(tmp_path: Path):
    plain = folder(tmp_path / "plain", 40, seed=0, bars=(0, 3))
    boxed = folder(tmp_path / "boxed", 40, seed=1, bars=(6, 12))
    assert bars_auroc(plain, boxed) > 0.99
    assert bars_auroc(boxed, plain) > 0.99


def test_data_padded_alike_are_not_told_apart(tmp_path: Path):
    files = [folder(tmp_path / str(n), 150, seed=n, bars=(0, 10)) for n in range(2)]
    assert bars_auroc(*files) == pytest.approx(0.5, abs=0.1)


def test_too_few_images_give_no_figure(tmp_path: Path):
    many = folder(tmp_path / "many", 20, seed=0, bars=(0, 3))
    few = folder(tmp_path / "few", 10, seed=1, bars=(6, 12))
    assert not isnan(bars_auroc(many, few))
    assert isnan(bars_auroc(many, few[1:]))
    assert isnan(bars_auroc([], many))


def test_images_that_cannot_be_read_are_skipped(tmp_path: Path):
    plain = folder(tmp_path / "plain", 20, seed=0, bars=(0, 3))
    boxed = folder(tmp_path / "boxed", 20, seed=1, bars=(6, 12))
    boxed[3].write_bytes(b"no image")
    assert bars_auroc(plain, [*boxed, tmp_path / "missing.png"]) > 0.99
