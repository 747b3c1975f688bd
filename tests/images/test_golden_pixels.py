"""Every kind of pixel in every format that carries it, against the colours it was made from."""

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from surefind.images.decode import ImageRejected, decode

RED, GREEN, BLUE, GREY = (200, 30, 40), (20, 180, 60), (30, 60, 190), (120, 120, 120)
COLOURS = np.array([[RED, GREEN], [BLUE, GREY]], np.uint8).repeat(8, 0).repeat(8, 1)  # (16, 16, 3)
GREYS = np.array([[0, 80], [160, 255]], np.uint8).repeat(8, 0).repeat(8, 1)
BLACK_AND_WHITE = np.where(GREYS > 100, 255, 0).astype(np.uint8)
ALPHA = np.array([[255, 128], [0, 255]], np.uint8).repeat(8, 0).repeat(8, 1)
DEEP = GREYS.astype(np.uint16) << 8 | 77


def on_white(pixels: np.ndarray) -> np.ndarray:
    share = ALPHA[..., None] / 255
    pixels = np.broadcast_to(pixels if pixels.ndim == 3 else pixels[..., None], COLOURS.shape)
    return np.rint(pixels * share + 255 * (1 - share))


def saved(image: Image.Image, file_format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()


def rgb() -> Image.Image:
    return Image.fromarray(COLOURS)


def rgba() -> Image.Image:
    return Image.fromarray(np.dstack([COLOURS, ALPHA]))


def grey_alpha() -> Image.Image:
    return Image.fromarray(np.dstack([GREYS, ALPHA]))


def palette() -> Image.Image:
    return rgb().quantize(4)


def see_through(image: Image.Image) -> Image.Image:
    """The palette image, with the index of its first pixel (red) transparent."""
    image.info["transparency"] = image.getpixel((0, 0))
    return image


WITHOUT_RED = np.where((COLOURS == RED).all(axis=2, keepdims=True), 255, COLOURS)
WITHOUT_80 = np.where(GREYS == 80, 255, GREYS)


def png(bits: int, colour_type: int, pixels: np.ndarray, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG as Pillow cannot write it."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels.astype(">u2" if bits == 16 else "u1"))
    head = struct.pack(">LLBBBBB", width, height, bits, colour_type, 0, 0, 0)
    parts = [(b"IHDR", head), *chunks, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">L", len(body)) + name + body + struct.pack(">L", zlib.crc32(name + body)) for name, body in parts
    )


def grey_tiff(order: str, bits: int, photometric: int, strip: bytes) -> bytes:
    """A TIFF of one strip as Pillow cannot write it."""
    tags = [(256, 16), (257, 16), (258, bits), (259, 1), (262, photometric)]
    tags += [(273, 8), (277, 1), (278, 16), (279, len(strip))]
    entries = b"".join(struct.pack(order + "HHLHH", tag, 3, 1, value, 0) for tag, value in tags)
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "L", 8 + len(strip))
    return head + strip + struct.pack(order + "H", len(tags)) + entries + b"\0\0\0\0"


def packed_12_bits(values: np.ndarray) -> bytes:
    pairs = values.reshape(-1, 2).astype(int)
    return b"".join(bytes([a >> 4, (a & 15) << 4 | b >> 8, b & 255]) for a, b in pairs)


def animation(file_format: str, **options: Any) -> bytes:
    other = Image.new("RGB", rgb().size, "white")
    return saved(rgb(), file_format, save_all=True, append_images=[other], **options)


LOSSY = 12  # largest error of a colour after JPEG or lossy WEBP
GOLDEN: dict[str, tuple[Callable[[], bytes], np.ndarray, int]] = {
    "RGB JPEG": (lambda: saved(rgb(), "JPEG", quality=95, subsampling=0), COLOURS, LOSSY),
    "RGB progressive JPEG": (lambda: saved(rgb(), "JPEG", quality=95, subsampling=0, progressive=True), COLOURS, LOSSY),
    "L JPEG": (lambda: saved(Image.fromarray(GREYS), "JPEG", quality=95), GREYS, LOSSY),
    "CMYK JPEG": (lambda: saved(rgb().convert("CMYK"), "JPEG", quality=95, subsampling=0), COLOURS, LOSSY),
    "MPO": (lambda: animation("MPO", quality=95, subsampling=0), COLOURS, LOSSY),
    "RGB PNG": (lambda: saved(rgb(), "PNG"), COLOURS, 0),
    "RGBA PNG": (lambda: saved(rgba(), "PNG"), on_white(COLOURS), 1),
    "L PNG": (lambda: saved(Image.fromarray(GREYS), "PNG"), GREYS, 0),
    "LA PNG": (lambda: saved(grey_alpha(), "PNG"), on_white(GREYS), 1),
    "1-bit PNG": (lambda: saved(Image.fromarray(GREYS > 100), "PNG"), BLACK_AND_WHITE, 0),
    "P PNG": (lambda: saved(palette(), "PNG"), COLOURS, 1),
    "P PNG with transparency": (lambda: saved(see_through(palette()), "PNG"), WITHOUT_RED, 1),
    "RGB PNG with transparency": (lambda: png(8, 2, COLOURS, (b"tRNS", struct.pack(">3H", *RED))), WITHOUT_RED, 0),
    "L PNG with transparency": (lambda: png(8, 0, GREYS, (b"tRNS", struct.pack(">H", 80))), WITHOUT_80, 0),
    "16-bit grey PNG": (lambda: png(16, 0, DEEP), GREYS, 0),
    "16-bit grey PNG with transparency": (
        lambda: png(16, 0, DEEP, (b"tRNS", struct.pack(">H", 80 << 8 | 77))),
        WITHOUT_80,
        0,
    ),
    "16-bit grey and alpha PNG": (
        lambda: png(16, 4, np.dstack([DEEP, ALPHA.astype(np.uint16) * 257])),
        on_white(GREYS),
        1,
    ),
    "16-bit RGB PNG": (lambda: png(16, 2, COLOURS.astype(np.uint16) << 8), COLOURS, 0),
    "animated PNG": (lambda: animation("PNG"), COLOURS, 0),
    "P GIF": (lambda: saved(palette(), "GIF"), COLOURS, 1),
    "P GIF with transparency": (lambda: saved(see_through(palette()), "GIF"), WITHOUT_RED, 1),
    "L GIF": (lambda: saved(Image.fromarray(GREYS), "GIF"), GREYS, 0),
    "animated GIF": (lambda: animation("GIF"), COLOURS, 1),
    "lossless RGB WEBP": (lambda: saved(rgb(), "WEBP", lossless=True), COLOURS, 0),
    "lossy RGB WEBP": (lambda: saved(rgb().resize((64, 64), 0), "WEBP", quality=100), COLOURS, 30),
    "RGBA WEBP": (lambda: saved(rgba(), "WEBP", lossless=True, exact=True), on_white(COLOURS), 1),
    "animated WEBP": (lambda: animation("WEBP", lossless=True), COLOURS, 0),
    "RGB TIFF": (lambda: saved(rgb(), "TIFF"), COLOURS, 0),
    "LZW TIFF": (lambda: saved(rgb(), "TIFF", compression="tiff_lzw"), COLOURS, 0),
    "deflate TIFF": (lambda: saved(rgb(), "TIFF", compression="tiff_adobe_deflate"), COLOURS, 0),
    "fax TIFF": (lambda: saved(Image.fromarray(GREYS > 100), "TIFF", compression="group4"), BLACK_AND_WHITE, 0),
    "RGBA TIFF": (lambda: saved(rgba(), "TIFF"), on_white(COLOURS), 1),
    "P TIFF": (lambda: saved(palette(), "TIFF"), COLOURS, 1),
    "CMYK TIFF": (lambda: saved(rgb().convert("CMYK"), "TIFF"), COLOURS, 1),
    "YCbCr TIFF": (lambda: saved(rgb().convert("YCbCr"), "TIFF"), COLOURS, 3),
    "16-bit TIFF": (lambda: saved(Image.fromarray(DEEP), "TIFF"), GREYS, 0),
    "16-bit big-endian TIFF": (lambda: grey_tiff(">", 16, 1, DEEP.astype(">u2").tobytes()), GREYS, 0),
    "16-bit TIFF where white is zero": (lambda: grey_tiff("<", 16, 0, (65535 - DEEP).tobytes()), GREYS, 0),
    "12-bit TIFF": (lambda: grey_tiff("<", 12, 1, packed_12_bits(DEEP >> 4)), GREYS, 0),
    "32-bit TIFF of 16-bit values": (lambda: saved(Image.fromarray(DEEP.astype(np.int32)), "TIFF"), GREYS, 0),
    "TIFF of two pages": (lambda: animation("TIFF"), COLOURS, 0),
    "RGB BMP": (lambda: saved(rgb(), "BMP"), COLOURS, 0),
    "P BMP": (lambda: saved(palette(), "BMP"), COLOURS, 1),
    "1-bit BMP": (lambda: saved(Image.fromarray(GREYS > 100), "BMP"), BLACK_AND_WHITE, 0),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_decoded_pixels_are_the_colours_it_was_made_from(kind: str):
    make, expected, tolerance = GOLDEN[kind]
    pixels = decode(make()).permute(1, 2, 0).numpy().astype(int)
    if expected.ndim == 2:
        expected = expected[..., None]
    middles = np.linspace(0, len(pixels), 4, endpoint=False, dtype=int)[1::2]  # away from edges
    found = pixels[np.ix_(middles, middles)]
    wanted = np.broadcast_to(expected, (16, 16, 3))[np.ix_([4, 12], [4, 12])]
    assert abs(found - wanted).max() <= tolerance


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "float TIFF": (lambda: saved(Image.fromarray(GREYS.astype(np.float32)), "TIFF"), "unsupported mode F"),
    "LAB TIFF": (lambda: saved(Image.frombytes("LAB", (16, 16), COLOURS.tobytes()), "TIFF"), "unsupported mode LAB"),
    "32-bit TIFF of large values": (
        lambda: saved(Image.fromarray(DEEP.astype(np.int32) << 8), "TIFF"),
        "unsupported grey values",
    ),
    "32-bit TIFF of negative values": (
        lambda: saved(Image.fromarray(-DEEP.astype(np.int32)), "TIFF"),
        "unsupported grey values",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_pixels_without_a_known_range_are_refused(kind: str):
    make, reason = REFUSED[kind]
    with pytest.raises(ImageRejected, match=reason):
        decode(make())


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "CMYK", "YCbCr", "HSV", "I;16"]
)
def test_pillow_images_of_every_mode_are_taken(mode: str):
    image = rgb().convert("L") if mode == "I;16" else rgb()
    path = {"La": ("LA", "La"), "RGBa": ("RGBA", "RGBa")}.get(mode, (mode,))
    for step in path:
        image = image.convert(step)
    assert decode(image).shape == (3, 16, 16)
