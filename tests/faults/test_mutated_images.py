"""Thousands of damaged files through `decode`: pixels or `ImageRejected`, nothing else."""

import io
import logging
from collections import Counter
from typing import Any

import numpy as np
import pytest
from mutations import mutated
from PIL import Image

from surefind.images.decode import ImageRejected, decode


def saved(image: Image.Image, file_format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()


def seeds() -> dict[str, bytes]:
    """Small files of every kind that `decode` accepts."""
    random = np.random.default_rng(0)
    rgb = Image.fromarray(random.integers(0, 255, (24, 32, 4), np.uint8)[:, :, :3].copy())
    rgba = Image.fromarray(random.integers(0, 255, (24, 32, 4), np.uint8))
    deep = Image.fromarray(random.integers(0, 65535, (24, 32), np.uint16))
    exif = Image.Exif()
    exif.update({0x0112: 6, 0x010F: "maker", 0x011A: 72.0, 0x0128: 2})

    def pages(file_format: str) -> bytes:  # of copies: Pillow leaves settings on what it saved
        return saved(rgb.copy(), file_format, save_all=True, append_images=[rgb.rotate(180)])

    return {
        "JPEG": saved(rgb, "JPEG", exif=exif),
        "JPEG progressive": saved(rgb, "JPEG", progressive=True),
        "JPEG CMYK": saved(rgb.convert("CMYK"), "JPEG"),
        "JPEG MPO": pages("MPO"),
        "PNG": saved(rgb, "PNG", exif=exif),
        "PNG palette": saved(rgb.quantize(16), "PNG", transparency=3),
        "PNG alpha": saved(rgba, "PNG"),
        "PNG 16-bit": saved(deep, "PNG"),
        "PNG animated": pages("PNG"),
        "GIF": saved(rgb.quantize(16), "GIF", transparency=2),
        "GIF animated": pages("GIF"),
        "WEBP": saved(rgb, "WEBP", exif=exif),
        "WEBP lossless": saved(rgba, "WEBP", lossless=True),
        "WEBP animated": pages("WEBP"),
        "TIFF": saved(rgb, "TIFF", exif=exif),
        "TIFF LZW": saved(rgb, "TIFF", compression="tiff_lzw"),
        "TIFF deflate": saved(rgba, "TIFF", compression="tiff_adobe_deflate"),
        "TIFF JPEG": saved(rgb, "TIFF", compression="jpeg"),
        "TIFF packbits": saved(rgb.quantize(16), "TIFF", compression="packbits"),
        "TIFF fax": saved(rgb.convert("1"), "TIFF", compression="group4"),
        "TIFF 16-bit": saved(deep, "TIFF"),
        "TIFF pages": pages("TIFF"),
        "BMP": saved(rgb, "BMP"),
        "BMP palette": saved(rgb.quantize(16), "BMP"),
    }


def outcomes(count: int, seed: int) -> Counter[str]:
    random = np.random.default_rng(seed)
    files = list(seeds().values())
    found: Counter[str] = Counter()
    for number in range(count):
        other = files[random.integers(len(files))]
        data = mutated(files[number % len(files)], other, random, head=100)
        try:
            assert decode(data).shape[0] == 3
            found["decoded"] += 1
        except ImageRejected as rejected:
            found["rejected: " + rejected.reason.split(":")[0]] += 1
    return found


def test_the_seeds_themselves_are_good():
    for data in seeds().values():
        assert decode(data).shape[0] == 3


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.faults)])
def test_damaged_files_give_pixels_or_a_rejection(count: int):
    found = outcomes(count, seed=count)
    logging.getLogger(__name__).info("outcomes: %s", dict(found.most_common()))
    assert found.total() == count
