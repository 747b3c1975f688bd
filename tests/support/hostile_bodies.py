"""Request bodies: valid images, other files, decompression bombs, damaged images."""

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator

import numpy as np
from mutating import mutated
from PIL import Image

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP")


def good_pictures() -> dict[str, bytes]:
    """A small image of every format."""
    pixels = np.random.default_rng(0).integers(0, 255, (24, 32, 3), np.uint8)
    return {kind: _saved(Image.fromarray(pixels), kind) for kind in FORMATS}


def not_pictures() -> dict[str, bytes]:
    """Other files, and bombs: small files that claim to be huge."""
    good = good_pictures()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("photo.png", good["PNG"])
    return {
        "nothing": b"",
        "one byte": b"\0",
        "text": b"hello",
        "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(touch) system\n",
        "PDF": b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n",
        "SVG": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
        "SVG of a file": b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><svg>&b;</svg>',
        "HTML": b"<!doctype html><img src=x onerror=alert(1)>",
        "URL": b"http://127.0.0.1:9/photo.png",
        "file URL": b"file:///etc/passwd",
        "ZIP": archive.getvalue(),
        "gzip of a picture": gzip.compress(good["PNG"]),
        "gzip of zeros": gzip.compress(bytes(10**6)),
        "pickle": b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
        "JSON": json.dumps({"image": "aGVsbG8="}).encode(),
        "multipart": b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n\x89PNG\r\n--x--',
        "base64": b"data:image/png;base64,iVBORw0KGgo=",
        "ELF": b"\x7fELF" + bytes(200),
        "MP4": bytes(4) + b"ftypisom" + bytes(100),
        "PSD": b"8BPS\0\1" + bytes(100),
        "ICO": b"\0\0\1\0\1\0" + bytes(100),
        "PPM": b"P6 2 2 255 " + bytes(12),
        "huge PPM": b"P6 1000000 1000000 255 ",
        "magic of PNG alone": b"\x89PNG\r\n\x1a\n",
        "magic of JPEG alone": b"\xff\xd8\xff",
        "magic of GIF alone": b"GIF89a",
        "magic of TIFF alone": b"II*\0",
        "magic of WEBP alone": b"RIFF\xff\xff\xff\xffWEBP",
        "PNG of 169 megapixels": _png_bomb(13_000, 13_000),
        "PNG of 2^31 pixels a side": _png_bomb(2**31 - 1, 2**31 - 1),
        "GIF of 65535 pixels a side": b"GIF89a" + struct.pack("<HH", 65_535, 65_535) + bytes(20),
        "BMP of a huge size": good["BMP"][:18] + b"\xff\xff\xff\x7f" * 2 + good["BMP"][26:],
        "JPEG of 65535 pixels a side": _jpeg_bomb(good["JPEG"]),
    }


def damaged_pictures(count: int, *, seed: int) -> Iterator[bytes]:
    """Mutated images of every format; some can still be decoded."""
    random = np.random.default_rng(seed)
    good = list(good_pictures().values())
    for number in range(count):
        other = good[random.integers(len(good))]
        yield mutated(good[number % len(good)], other, random)


def _saved(picture: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def _png_bomb(width: int, height: int) -> bytes:
    """A header and a few rows; the rest would be zeros."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(10**6))), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _jpeg_bomb(jpeg: bytes) -> bytes:
    """A JPEG whose frame header has the maximum size."""
    place = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:place] + b"\xff\xff\xff\xff" + jpeg[place + 4 :]
