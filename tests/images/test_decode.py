"""Decoding: accepted sources, refused files, reasons."""

import io
import os
import re
import struct
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from surefind.errors import InvalidArgument
from surefind.images.decode import FORMATS, DecodePolicy, ImageRejected, _register_heif, decode

ORIENTATION = 0x0112
UNDO = {  # what a camera held that way would have stored
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def photo(width: int = 40, height: int = 24) -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 255, (height // 8, width // 8, 3), np.uint8)
    return Image.fromarray(noise.repeat(8, 0).repeat(8, 1))


def saved(image: Image.Image, file_format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()


@pytest.mark.parametrize("orientation", UNDO)
@pytest.mark.parametrize(
    ("file_format", "options"),
    [
        ("JPEG", {"quality": 95, "subsampling": 0}),
        ("PNG", {}),
        ("WEBP", {"lossless": True}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
    ],
    ids=lambda value: value if isinstance(value, str) else value.get("compression", ""),
)
def test_every_orientation_gives_the_same_pixels(orientation: int, file_format: str, options: dict[str, Any]):
    turn = UNDO[orientation]
    stored = photo() if turn is None else photo().transpose(turn)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    found = decode(saved(stored, file_format, exif=exif, **options))
    upright = decode(photo())
    assert found.shape == upright.shape
    assert (found.int() - upright.int()).abs().max() <= (8 if file_format == "JPEG" else 0)


@pytest.mark.parametrize(
    "exif",
    [
        b"Exif\0\0",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + b"\xff" * 40,
        b"Exif\0\0II*\0\x08\0\0\0\x01\0" + struct.pack("<HHLL", ORIENTATION, 2, 1000, 9),
        b"Exif\0\0II*\0\x08\0\0\0\x01\0" + struct.pack("<HHLL", ORIENTATION, 5, 1, 0) + b"\0" * 4,
        b"nonsense",
    ],
)
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP"])
def test_damaged_exif_leaves_the_pixels_as_they_are(exif: bytes, file_format: str):
    assert decode(saved(photo(), file_format, exif=exif)).shape == (3, 24, 40)


@pytest.mark.parametrize("file_format", FORMATS)
def test_half_a_file_is_refused(file_format: str):
    data = saved(photo(160, 120), file_format)
    assert decode(data).shape == (3, 120, 160)
    with pytest.raises(ImageRejected):
        decode(data[: len(data) // 2])


def test_half_a_jpeg_that_pillow_verifies_is_refused_as_truncated(tmp_path: Path):
    data = saved(photo(160, 120), "JPEG")
    half = tmp_path / "half.jpg"
    half.write_bytes(data[: len(data) // 2])
    with Image.open(half) as image:
        image.verify()
    with pytest.raises(ImageRejected) as caught:
        decode(half)
    assert caught.value.reason == "truncated"
    assert caught.value.source == str(half)


OTHERS = {
    "SVG": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"></svg>',
    "AVIF": b"\0\0\0\x18ftypavif" + b"\0" * 20,
    "BigTIFF": b"II\x2b\0\x08\0\0\0" + b"\x10" + b"\0" * 30,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_formats_named_jpg_are_refused_by_content(kind: str, tmp_path: Path):
    path = tmp_path / "picture.jpg"
    path.write_bytes(OTHERS[kind])
    with pytest.raises(ImageRejected) as caught:
        decode(path)
    assert caught.value.reason == f"unsupported format {kind}"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b"hello", "not an image"),
        (b"%PDF-1.7\n1 0 obj\n", "not an image"),
        (b"\xff\xd8\xff", "damaged JPEG header"),
        (b"\x89PNG\r\n\x1a\n", "damaged"),
        (b"II*\0", "damaged"),
    ],
)
def test_bytes_that_are_no_image_are_refused_with_a_reason(data: bytes, reason: str):
    with pytest.raises(ImageRejected, match=reason) as caught:
        decode(data)
    assert caught.value.source == "image"


def test_a_file_that_cannot_be_read_is_refused_with_a_reason(tmp_path: Path):
    pipe = tmp_path / "pipe.jpg"
    os.mkfifo(pipe)
    for path, reason in {
        tmp_path / "none.jpg": "no such file",
        tmp_path: "a folder, not an image",
        pipe: "not a regular file",
        tmp_path / "none.jpg" / "a.jpg": "no such file",
        Path("a\0b.jpg"): "cannot be read: embedded null byte",
        tmp_path / ("a" * 300): "cannot be read: file name too long",
    }.items():
        with pytest.raises(ImageRejected) as caught:
            decode(path)
        assert caught.value.reason == reason
        assert str(caught.value).startswith(f"{path}: {reason}\n  fix: ")


def test_limits_of_the_policy_are_kept():
    data = saved(photo(), "PNG")
    for policy, reason in [
        (DecodePolicy(max_bytes=100), f"too many bytes: {len(data)}, at most 100"),
        (DecodePolicy(max_pixels=959), "too many pixels: 960, at most 959"),
        (DecodePolicy(max_side=39), "too long a side: 40, at most 39"),
    ]:
        with pytest.raises(ImageRejected) as caught:
            decode(data, policy)
        assert caught.value.reason == reason


def test_the_pixel_limit_holds_for_every_kind_of_source():
    policy = DecodePolicy(max_pixels=959)
    pixels = decode(photo())
    for source in (photo(), np.asarray(photo()), pixels):
        with pytest.raises(ImageRejected, match="too many pixels"):
            decode(source, policy)


@pytest.mark.parametrize("limit", ["max_bytes", "max_pixels", "max_side"])
def test_a_limit_must_be_positive(limit: str):
    with pytest.raises(InvalidArgument, match=f"{limit}: expected greater than 0, got 0"):
        DecodePolicy(**{limit: 0})


def test_arrays_are_taken_as_they_are():
    colours = np.asarray(photo())
    grey = colours[:, :, 0]
    opaque = np.dstack([colours, np.full_like(grey, 255)])
    assert np.array_equal(decode(colours).permute(1, 2, 0), colours)
    assert np.array_equal(decode(opaque).permute(1, 2, 0), colours)
    for array in (grey, grey[:, :, None]):
        assert np.array_equal(decode(array), np.stack([grey] * 3))


def test_pixels_are_our_own_and_channels_last():
    colours = np.asarray(photo())
    pixels = decode(colours)
    assert pixels.permute(1, 2, 0).is_contiguous()
    pixels.zero_()
    assert colours.any()


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (0, 0)])
def test_an_image_without_pixels_is_refused(shape: tuple[int, ...]):
    with pytest.raises(ImageRejected, match="no pixels"):
        decode(np.zeros(shape, np.uint8))


@pytest.mark.parametrize(
    "wrong",
    [None, 3, ["a.jpg"], np.zeros((3, 5, 5), np.uint8), np.zeros(4, np.uint8), torch.zeros(4, 4, 3, dtype=torch.uint8)],
    ids=lambda wrong: f"{type(wrong).__name__}{tuple(getattr(wrong, 'shape', ()))}",
)
def test_a_mistake_of_the_caller_is_not_blamed_on_the_image(wrong: Any):
    with pytest.raises(InvalidArgument, match="source: expected"):
        decode(wrong)


def noisy() -> bytes:
    """A JPEG whose EXIF makes Pillow warn."""
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0" + struct.pack("<HHLL", 0x010F, 2, 1000, 9)
    return saved(photo(), "JPEG", exif=exif)


def test_no_warning_leaks_and_the_filters_are_as_before():
    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        Image.open(io.BytesIO(noisy())).getexif()
        assert len(leaked) > 0
        leaked.clear()
        threads = [threading.Thread(target=lambda: decode(noisy())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not leaked
        assert warnings.filters == before


def test_floats_from_0_to_1_are_pixels():
    array = np.array(photo())
    for source in (array / 255, (array / 255).astype(np.float32)):
        assert torch.equal(decode(source), decode(array))
    assert torch.equal(decode(torch.from_numpy(array / 255).permute(2, 0, 1)), decode(array))


@pytest.mark.parametrize("value", [255.0, -0.5, np.nan])
def test_other_floats_are_refused(value: float):
    for source in (np.full((4, 4, 3), value), torch.full((3, 4, 4), value)):
        with pytest.raises(InvalidArgument, match="expected floats from 0 to 1, got values from"):
            decode(source)


def test_heic_is_read_with_pillow_heif():
    pytest.importorskip("pillow_heif").register_heif_opener()
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    big = photo(480, 320)
    data = saved(big.transpose(UNDO[6]), "HEIF", quality=100, exif=exif.tobytes())
    difference = decode(data).int() - decode(big).int()
    assert difference.abs().float().mean() < 5
    with pytest.raises(ImageRejected, match="too many pixels"):
        decode(data, DecodePolicy(max_pixels=1000))
    with pytest.raises(ImageRejected, match="damaged HEIC header"):
        decode(data[: len(data) // 2])


def test_without_pillow_heif_heic_is_refused_with_its_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    _register_heif.cache_clear()
    with pytest.raises(ImageRejected, match=r"(?s)HEIC.*pip install 'surefind\[heic\]'"):
        decode(b"\0\0\0\x18ftypheic" + b"\0" * 20)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("https://example.com/cat.jpg", "a URL, and surefind never downloads images"),
        ("s3://bucket/cat.jpg", "a URL, "),
        ("a photo of a cat", "if this is a text query, pass its vector"),
        ("my cat.jpg", "no such file$"),
    ],
)
def test_what_is_no_path_gets_a_reason_of_its_own(source: str, reason: str):
    with pytest.raises(ImageRejected) as caught:
        decode(source)
    assert re.match(f".*{reason}", caught.value.reason)
