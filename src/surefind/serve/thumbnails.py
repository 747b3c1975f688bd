"""Pictures that the service sends: thumbnails and samples, drawn anew without metadata."""

import io
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from PIL import Image

from surefind.datasets.folder import find_images
from surefind.errors import InvalidFile
from surefind.images.decode import ImageRejected, decode_picture

QUALITY = 85
TINY = 64  # longest side of a picture that is drawn enlarged
CACHE_BYTES = 64 * 2**20

MOST_SAMPLES = 12
LOSSLESS = 1_000_000  # pixels up to which a sample keeps each of them
LONGEST = 2048  # side of a larger one
SAMPLE_QUALITY = 95

logger = logging.getLogger("surefind.serve")


def draw_thumbnail(content: bytes, side: int) -> bytes:
    """A JPEG no longer than `side` of an image file: upright, of its first frame, no metadata.

    A tiny picture is enlarged by a whole factor, each pixel a square: smoothed, a blurred picture
    could not be told from a sharp one, and its JPEG were three times as large.
    """
    picture = decode_picture(content)
    longest = max(picture.size)
    if longest <= TINY and side >= 2 * longest:
        factor = side // longest
        size = (factor * picture.width, factor * picture.height)
        picture = picture.resize(size, Image.Resampling.NEAREST)
    return _as_jpeg(picture, longest=side, quality=QUALITY)


def _as_jpeg(picture: Image.Image, *, longest: int, quality: int) -> bytes:
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS, reducing_gap=3.0)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality, subsampling=0)  # coloured edges stay sharp
    return file.getvalue()


class Thumbnails:
    """Cache of thumbnails, least recently used out first, bounded in bytes."""

    def __init__(self, most_bytes: int = CACHE_BYTES) -> None:
        self.most_bytes, self.bytes = most_bytes, 0
        self._kept: OrderedDict[tuple[Hashable, int], bytes] = OrderedDict()
        self._lock = Lock()

    def of(self, key: Hashable, side: int, *, read: Callable[[], bytes]) -> bytes:
        """The thumbnail of a picture; `key` changes with its content, `read` gives its file."""
        wanted = (key, side)
        with self._lock:
            if (kept := self._kept.get(wanted)) is not None:
                self._kept.move_to_end(wanted)
                return kept
        thumbnail = draw_thumbnail(read(), side)  # two threads may draw the same one
        with self._lock:
            self.bytes += len(thumbnail) - len(self._kept.get(wanted, b""))
            self._kept[wanted] = thumbnail
            while self.bytes > self.most_bytes:
                _, oldest = self._kept.popitem(last=False)
                self.bytes -= len(oldest)
        return thumbnail


class Sample(NamedTuple):
    """A picture to try."""

    name: str
    content: bytes
    media_type: str


def read_samples(folder: Path) -> list[Sample]:
    """Read the first pictures of a folder that can be used; the others are logged."""
    samples: list[Sample] = []
    for path in find_images(folder):
        if len(samples) == MOST_SAMPLES:
            break
        try:
            picture = decode_picture(folder / path)
        except ImageRejected as rejected:
            left_out = f"{path}: {rejected.reason}"
            logger.warning("left out of the samples: %s", left_out)
            continue
        if picture.width * picture.height <= LOSSLESS:
            file = io.BytesIO()
            picture.save(file, "PNG")
            samples.append(Sample(path, file.getvalue(), "image/png"))
        else:
            content = _as_jpeg(picture, longest=LONGEST, quality=SAMPLE_QUALITY)
            samples.append(Sample(path, content, "image/jpeg"))
    if not samples:
        raise InvalidFile(f"{folder}: none of its pictures can be used, such as {left_out}")
    return samples
