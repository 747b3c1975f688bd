"""Thousands of damaged files through the door: pixels or `ImageRejected`, nothing else."""

import io
import logging
from collections import Counter
from typing import Any

import numpy as np
import pytest
from PIL import Image

from surefind.images.decode import ImageRejected, decode


def saved(image: Image.Image, file_format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()


def seeds() -> dict[str, bytes]:
    """Small files of every kind that the door takes."""
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


def mutated(data: bytes, other: bytes, random: np.random.Generator) -> bytes:
    """One of six kinds of damage; half of them aim at the first 100 bytes, where sizes are."""
    changed = bytearray(data)
    head = min(100, len(data))
    kind = random.integers(6)
    if kind == 0:  # a few bits anywhere
        for place in random.integers(0, len(data), random.integers(1, 9)):
            changed[place] ^= 1 << random.integers(8)
    elif kind == 1:  # a few bytes of the header
        for place in random.integers(0, head, random.integers(1, 5)):
            changed[place] = random.integers(256)
    elif kind == 2:  # extreme numbers in the header
        place = int(random.integers(0, head))
        changed[place : place + 4] = [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff"][
            random.integers(3)
        ]
    elif kind == 3:  # cut short
        del changed[random.integers(1, len(data)) :]
    elif kind == 4:  # the end of another file
        place = random.integers(0, min(len(data), len(other)))
        changed[place:] = other[place:]
    else:  # a piece taken out, or twice
        start, stop = sorted(random.integers(0, len(data), 2))
        changed[start:stop] = changed[start:stop] * int(2 * random.integers(2))
    return bytes(changed)


def outcomes(count: int, seed: int) -> Counter[str]:
    random = np.random.default_rng(seed)
    files = list(seeds().values())
    found: Counter[str] = Counter()
    for number in range(count):
        other = files[random.integers(len(files))]
        data = mutated(files[number % len(files)], other, random)
        try:
            assert decode(data).shape[0] == 3
            found["decoded"] += 1
        except ImageRejected as rejected:
            found["rejected: " + rejected.reason.split(":")[0]] += 1
    return found


def test_the_seeds_themselves_are_good():
    for data in seeds().values():
        assert decode(data).shape[0] == 3


def test_a_thousand_damaged_files_give_pixels_or_a_rejection():
    assert outcomes(1_000, seed=1).total() == 1_000


@pytest.mark.faults
def test_twenty_thousand_damaged_files_give_pixels_or_a_rejection():
    found = outcomes(20_000, seed=2)
    logging.getLogger(__name__).info("outcomes: %s", dict(found.most_common()))
    assert found.total() == 20_000
