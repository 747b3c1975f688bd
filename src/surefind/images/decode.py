"""Decode images to RGB pixels, or raise ImageRejected; every image is decoded here."""

import io
import os
import re
import stat
import struct
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import (  # importing a plugin registers its format, here once and not in a thread
    BmpImagePlugin,  # noqa: F401
    GifImagePlugin,  # noqa: F401
    Image,
    JpegImagePlugin,  # noqa: F401
    PngImagePlugin,
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,  # noqa: F401
)
from pydantic import PositiveInt
from torch import Tensor

from surefind.errors import InvalidArgument, SurefindError
from surefind.validation import check_fields

ImageSource = str | Path | bytes | Image.Image | NDArray[Any] | Tensor

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP")  # JPEG includes MPO, as phones write it
TABLES = (".csv", ".parquet")  # files that list images
HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_URL = re.compile(r"(https?|ftp|s3|gs|file):", re.IGNORECASE)
_CONVERTED = ("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr", "HSV")  # by Pillow
_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N", "I")
_PREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}
_MAX_TILES = 65_535  # or strips, of a TIFF; Pillow creates an object for each before it reads one
_OFFSETS = (273, 324)  # TIFF tags StripOffsets, TileOffsets
_TILE_SIDES = (322, 323)  # TIFF tags TileWidth, TileLength
_SHORT = 3  # TIFF type
_BITS_PER_SAMPLE = 258  # TIFF tag
_PHOTOMETRIC = 262  # TIFF tag; 0 means that white is stored as zero
_ORIENTATION = 0x0112  # EXIF tag
# ImageOps.exif_transpose also writes the rest of the EXIF anew, and fails where that is odd.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

PngImagePlugin.MAX_TEXT_MEMORY = 8 * 2**20  # bytes of unpacked text: 64 MB are a bomb


class ImageRejected(SurefindError):
    """Image that cannot be used: the name of its source, and the reason."""

    def __init__(
        self, reason: str, *, source: str = "image", fix: str | None = "replace the image, or leave it out"
    ) -> None:
        super().__init__(f"{source}: {reason}", fix=fix)
        self.reason, self.source = reason, source


@dataclass(frozen=True)
class DecodePolicy:
    """Limits, checked before memory is allocated for the pixels."""

    max_bytes: PositiveInt = 100_000_000  # of the file
    max_pixels: PositiveInt = 50_000_000  # more than any phone's; Pillow itself ends at 178,956,970
    max_side: PositiveInt = 65_535  # JPEG's; resizing a longer side needs memory like a bomb

    def __post_init__(self) -> None:
        check_fields(self)


DEFAULT = DecodePolicy()


def decode(source: ImageSource, policy: DecodePolicy = DEFAULT) -> Tensor:
    """Decode one image to upright RGB pixels; alpha is composited over white.

    Args:
        source: a path, the bytes of a file, a Pillow image, an array (H, W) or (H, W, 1, 3 or 4)
            of uint8 or of floats from 0 to 1, or a tensor (3, H, W) of these. Of an animation,
            the first frame.
        policy: limits of bytes and pixels.

    Returns:
        uint8 tensor (3, H, W), with channels last in memory.

    Raises:
        ImageRejected: if the image cannot be read.
        InvalidArgument: if `source` has a wrong type, dtype or shape.

    >>> decode(np.zeros((2, 5, 3), np.uint8)).shape
    torch.Size([3, 2, 5])
    """
    try:
        with _quiet_pillow:
            return _upright_pixels(_open(source, policy), policy)
    except InvalidArgument:
        raise
    except ImageRejected as error:
        raise ImageRejected(error.reason, source=_name(source), fix=error.fix) from None
    except Exception as error:  # on hostile bytes Pillow raises nearly anything
        raise ImageRejected(_reason(error, policy), source=_name(source)) from error


def decode_picture(source: ImageSource, policy: DecodePolicy = DEFAULT) -> Image.Image:
    """Decode one image to a Pillow image."""
    return Image.fromarray(decode(source, policy).permute(1, 2, 0).numpy())


def _open(source: ImageSource, policy: DecodePolicy) -> Image.Image:
    if isinstance(source, Image.Image):
        return source
    if isinstance(source, Tensor):
        if source.ndim != 3 or source.shape[0] != 3:
            raise InvalidArgument("source", expected="a tensor of shape (3, H, W)", got=f"shape {tuple(source.shape)}")
        source = source.float() if source.is_floating_point() else source
        source = source.detach().cpu().permute(1, 2, 0).numpy()
    if isinstance(source, np.ndarray):
        return _from_array(source, policy)
    if isinstance(source, str | Path):
        source = _read(Path(source), policy.max_bytes)
    if not isinstance(source, bytes):
        raise InvalidArgument(
            "source", expected="a path, bytes, a Pillow image, an array or a tensor", got=type(source).__name__
        )
    _check_bytes(len(source), policy.max_bytes)
    _refuse_tiff_bombs(source, policy.max_pixels)
    formats: tuple[str, ...] = FORMATS
    if source[4:8] == b"ftyp" and source[8:12] in HEIF_BRANDS:
        _register_heif()
        formats = ("HEIF",)
    try:
        return Image.open(io.BytesIO(source), formats=formats)
    except UnidentifiedImageError:
        raise ImageRejected(_unidentified(source)) from None


@cache
def _register_heif() -> None:
    """Let Pillow open HEIC; raise ImageRejected if pillow-heif is not installed."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        raise ImageRejected(
            "HEIC, which needs the package pillow-heif", fix="pip install 'surefind[heic]', or save it as JPEG"
        ) from None
    register_heif_opener(thumbnails=False)


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise ImageRejected("a folder, not an image", fix="name the images in it")
        if not stat.S_ISREG(found.st_mode):
            raise ImageRejected("not a regular file")
        _check_bytes(found.st_size, max_bytes)
        with path.open("rb") as file:
            return file.read(max_bytes + 1)  # it may have grown meanwhile
    except FileNotFoundError:
        if _URL.match(str(path)):
            raise ImageRejected(
                "a URL, and surefind never downloads images", fix="download it, pass its path"
            ) from None
        if " " in path.name and not path.suffix:
            raise ImageRejected(
                "no such file; if this is a text query, pass its vector instead",
                fix="index.search(vectors), with vectors of the index's own model",
            ) from None
        raise ImageRejected("no such file", fix="check the path") from None
    except (OSError, ValueError) as error:  # ValueError: an impossible file name
        reason = getattr(error, "strerror", None) or str(error)
        raise ImageRejected(f"cannot be read: {reason.lower()}", fix="check the path and its permissions") from None


def _check_bytes(size: int, max_bytes: int) -> None:
    if size == 0:
        raise ImageRejected("empty file")
    if size > max_bytes:
        raise ImageRejected(
            f"too many bytes: {size:,}, at most {max_bytes:,}",
            fix="shrink the image, or allow more: DecodePolicy(max_bytes=...)",
        )


def _check_size(width: int, height: int, policy: DecodePolicy) -> None:
    if width < 1 or height < 1:
        raise ImageRejected(f"no pixels: {width} x {height}")
    fix = "shrink the image, or allow more: DecodePolicy({}=...)"
    if width * height > policy.max_pixels:
        raise ImageRejected(_too_many(width * height, policy), fix=fix.format("max_pixels"))
    if max(width, height) > policy.max_side:
        raise ImageRejected(
            f"too long a side: {max(width, height):,}, at most {policy.max_side:,}", fix=fix.format("max_side")
        )


def _upright_pixels(image: Image.Image, policy: DecodePolicy) -> Tensor:
    _check_size(*image.size, policy)
    image.load()  # a truncated file fails here, and TIFF turns itself upright
    turn = None
    with suppress(Exception):  # damaged EXIF says nothing about the pixels
        turn = _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    image = _to_rgb(image)
    if turn is not None:
        image = image.transpose(turn)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def _to_rgb(image: Image.Image) -> Image.Image:
    """Convert to RGB: alpha over white, 16 bits scaled to 8.

    Floats and LAB are refused: their range or white point is not known.
    """
    if image.mode in _SIXTEEN_BITS:
        return Image.fromarray(_eight_bits(image)).convert("RGB")
    if image.has_transparency_data:
        if image.mode in _PREMULTIPLIED:  # Pillow has no direct way from these
            image = image.convert(_PREMULTIPLIED[image.mode])
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    if image.mode not in _CONVERTED:
        raise ImageRejected(f"unsupported mode {image.mode}", fix="save it as an 8-bit RGB image")
    return image if image.mode == "RGB" else image.convert("RGB")  # which would copy


def _eight_bits(image: Image.Image) -> NDArray[np.uint8]:
    """Return the high bytes: Pillow's own conversion clips at 255."""
    values, depth, inverted = np.asarray(image), 16, False
    if isinstance(image, TiffImagePlugin.TiffImageFile) and image.mode != "I":
        # Pillow does not apply bit depth and inversion to deep greys.
        depth = 12 if image.tag_v2.get(_BITS_PER_SAMPLE) == (12,) else 16
        inverted = image.tag_v2.get(_PHOTOMETRIC) == 0
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= 1 << depth:
        raise ImageRejected(
            f"unsupported grey values from {low} to {high}, expected {depth} bits",
            fix="save it as an 8-bit or 16-bit grey image",
        )
    grey = (values >> (depth - 8)).astype(np.uint8)
    if inverted:
        grey = 255 - grey
    transparent = image.info.get("transparency")
    return grey if transparent is None else np.where(values == transparent, np.uint8(255), grey)


def _from_array(array: NDArray[Any], policy: DecodePolicy) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.dtype.kind == "f":
        low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
        if not (low >= 0 and high <= 1):  # nor NaN
            raise InvalidArgument(
                "source",
                expected="floats from 0 to 1",
                got=f"values from {low:g} to {high:g}",
                fix="pass pixels before normalisation; from 0 to 255 as uint8",
            )
        array = np.rint(array * 255).astype(np.uint8)
    if array.dtype != np.uint8 or not (array.ndim == 2 or array.shape[2:] in ((3,), (4,))):
        raise InvalidArgument(
            "source",
            expected="uint8, or floats from 0 to 1, of shape (H, W), (H, W, 3) or (H, W, 4)",
            got=f"{array.dtype} of shape {array.shape}",
        )
    _check_size(array.shape[1], array.shape[0], policy)
    return Image.fromarray(array)


def _name(source: ImageSource) -> str:
    if isinstance(source, str | Path):
        return str(source)
    return str(getattr(source, "filename", "")) or "image"


def _unidentified(data: bytes) -> str:
    """Reason for bytes that no plugin opens."""
    if data[8:12] in HEIF_BRANDS:
        return "damaged HEIC header"
    for name in FORMATS:
        accept = Image.OPEN[name][1]
        if accept is not None and accept(data[:16]):
            return f"damaged {name} header"
    if data[4:8] == b"ftyp":  # AVIF
        return f"unsupported format {data[8:12].decode('ascii', 'replace').strip().upper()}"
    return "unsupported format SVG" if b"<svg" in data[:1024].lower() else "not an image"


def _reason(error: Exception, policy: DecodePolicy) -> str:
    if isinstance(error, Image.DecompressionBombError):
        found = re.search(r"\((\d+) pixels\)", str(error))
        return _too_many(int(found[1]) if found else 2**28, policy)
    if isinstance(error, MemoryError):
        return "not enough memory to decode it"
    if "truncated" in str(error).lower():
        return "truncated"
    detail = str(error).split("\n")[0][:80] or type(error).__name__
    return f"damaged: {detail}"


def _too_many(pixels: int, policy: DecodePolicy) -> str:
    return f"too many pixels: {pixels:,}, at most {policy.max_pixels:,}"


def _refuse_tiff_bombs(data: bytes, max_pixels: int) -> None:
    """Reject a TIFF with huge or too many tiles; of repeated tags the largest counts."""
    order = {b"II": "<", b"MM": ">"}.get(data[:2])
    if order is None or data[2:4] not in (b"\x2a\0", b"\0\x2a", b"\x2b\0", b"\0\x2b"):
        return
    if 0x2B in data[2:4]:
        raise ImageRejected("unsupported format BigTIFF", fix="save it as PNG or as a classic TIFF")
    if len(data) < 8:
        return
    (start,) = struct.unpack_from(order + "L", data, 4)  # of the first page
    if start + 2 > len(data):
        return
    (entries,) = struct.unpack_from(order + "H", data, start)
    last = min(start + 2 + 12 * entries, len(data) - 11)  # the file may be truncated
    sides = dict.fromkeys(_TILE_SIDES, 1)
    for entry in range(start + 2, last, 12):
        tag, kind, count, value = struct.unpack_from(order + "HHL4s", data, entry)
        if tag in _OFFSETS and count > _MAX_TILES:
            raise ImageRejected(f"too many strips or tiles: {count:,}, at most {_MAX_TILES:,}")
        if tag in _TILE_SIDES:
            (side,) = struct.unpack(order + ("H2x" if kind == _SHORT else "L"), value)
            sides[tag] = max(sides[tag], side)
    width, height = sides.values()
    if width * height > max_pixels:
        raise ImageRejected(f"too many pixels in a tile: {width * height:,}, at most {max_pixels:,}")


class _QuietPillow:
    """Ignore Pillow's warnings, in any number of threads.

    `warnings.catch_warnings` swaps the filters of the whole process, so overlapping threads
    restore them wrongly. Here the first thread adds one filter and the last one removes it.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._filter: object = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                warnings.filterwarnings("ignore", module=r"PIL\.")
                self._filter = warnings.filters[0]

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                with suppress(ValueError):  # a catch_warnings of the caller ended meanwhile
                    cast("list[Any]", warnings.filters).remove(self._filter)


_quiet_pillow = _QuietPillow()
if hasattr(os, "register_at_fork"):  # a lost thread may hold the lock
    os.register_at_fork(after_in_child=_quiet_pillow.reset)
