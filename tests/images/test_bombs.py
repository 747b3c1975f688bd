"""Small files that claim to be huge: refused from the header, before memory is spent."""

import io
import logging
import struct
import sys
import time
import zlib
from collections.abc import Callable

import pytest
from measure import grown_by
from PIL import Image

from surefind.images.decode import ImageRejected, decode

SIDE = 13_000  # 169 megapixels: below the size that Pillow itself refuses


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">L", len(body)) + name + body + struct.pack(">L", zlib.crc32(name + body))


def png(side: int = SIDE, *, rows: int | None = None, extra: bytes = b"") -> bytes:
    packer = zlib.compressobj(1)
    row = b"\0" * (side // 8 + 1)
    body = b"".join(packer.compress(row) for _ in range(side if rows is None else rows))
    head = struct.pack(">LLBBBBB", side, side, 1, 0, 0, 0, 0)
    picture = chunk(b"IDAT", body + packer.flush()) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + picture


def png_text() -> bytes:
    """Text that unpacks to 200 MB, in front of a picture that is as large as it may be."""
    body = b"\0\0" + zlib.compress(b"a" * 1_000_000)
    return png(64, extra=b"".join(chunk(b"zTXt", b"%d" % n + body) for n in range(200)))


def gif(canvas: int, frame: int) -> bytes:
    head = b"GIF89a" + struct.pack("<HHBBB", canvas, canvas, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return head + b"," + struct.pack("<HHHHB", 0, 0, frame, frame, 0) + b"\x02\x02\x4c\x01\0;"


def bmp() -> bytes:
    head = struct.pack("<LllHHLLllLL", 40, SIDE, SIDE, 1, 8, 1, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<LLL", 1100, 0, 54 + 1024) + head + b"\0" * 1024 + b"\0\1"


def jpeg() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 16)).save(file, "JPEG")
    data = bytearray(file.getvalue())
    start = data.index(b"\xff\xc0")
    data[start + 5 : start + 9] = struct.pack(">HH", SIDE, SIDE)
    return bytes(data)


def webp() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 16)).save(file, "WEBP", lossless=True)
    data = bytearray(file.getvalue())
    data[21:25] = struct.pack("<L", (SIDE - 1) | (SIDE - 1) << 14)
    return bytes(data)


def webp_animation() -> bytes:
    file = io.BytesIO()
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:])
    data = bytearray(file.getvalue())
    data[24:30] = struct.pack("<L", SIDE - 1)[:3] * 2
    return bytes(data)


def tiff(*tags: tuple[int, int, int], body: bytes = b"") -> bytes:
    """Tags are number, count and value; all are LONG."""
    entries = b"".join(struct.pack("<HHLL", tag, 4, count, value) for tag, count, value in tags)
    head = b"II*\0" + struct.pack("<L", 8 + len(body)) + body
    return head + struct.pack("<H", len(tags)) + entries + b"\0\0\0\0"


def tiff_picture() -> bytes:
    body = zlib.compress(b"\0" * (SIDE * SIDE // 8), 1)
    size = [(256, 1, SIDE), (257, 1, SIDE), (258, 1, 1), (259, 1, 8), (262, 1, 1)]
    return tiff(*size, (273, 1, 8), (278, 1, SIDE), (279, 1, len(body)), body=body)


def tiff_tile() -> bytes:
    body = zlib.compress(b"\0" * 1000)
    size = [(256, 1, 16), (257, 1, 16), (258, 1, 8), (259, 1, 8), (262, 1, 1)]
    sides = [(322, 1, SIDE + 8), (323, 1, SIDE + 8)]
    return tiff(*size, *sides, (324, 1, 8), (325, 1, len(body)), body=body)


def tiff_strips() -> bytes:
    size = [(256, 1, 100), (257, 1, 100), (258, 1, 8), (259, 1, 1), (262, 1, 1)]
    return tiff(*size, (273, 1_000_000, 8), (278, 1, 1), body=b"\0" * 4_000_000)


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "PNG": (png, "too many pixels: 169,000,000, at most 50,000,000"),
    "PNG beyond Pillow's limit": (lambda: png(30_000, rows=1), "too many pixels: 900,000,000"),
    "PNG text": (png_text, "damaged: Too much memory used in text chunks"),
    "GIF canvas": (lambda: gif(SIDE, 1), "too many pixels: 169,000,000"),
    "GIF frame": (lambda: gif(1, SIDE), "too many pixels: 169,000,000"),
    "BMP": (bmp, "too many pixels: 169,000,000"),
    "JPEG": (jpeg, "too many pixels: 169,000,000"),
    "WEBP": (webp, "too many pixels: 169,000,000"),
    "WEBP animation": (webp_animation, "too many pixels: 169,000,000"),
    "TIFF": (tiff_picture, "too many pixels: 169,000,000"),
    "TIFF tile": (tiff_tile, "too many pixels in a tile: 169,208,064"),
    "TIFF strips": (tiff_strips, "too many strips or tiles: 1,000,000"),
}
MOST_MEMORY = 20  # MB


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_is_refused_before_memory_is_spent(kind: str):
    make, reason = BOMBS[kind]
    data = make()
    rejected: list[ImageRejected] = []

    def refuse() -> None:
        try:
            decode(data)
        except ImageRejected as error:
            rejected.append(error)

    start = time.perf_counter()
    grown = grown_by(refuse)
    milliseconds = 1000 * (time.perf_counter() - start)
    logging.getLogger(__name__).info("%s: %.1f ms, %.1f MB", kind, milliseconds, grown)
    assert rejected[0].reason.startswith(reason)
    assert grown < MOST_MEMORY
