"""Small copies of pictures that travel inside the page."""

import base64
import io
from pathlib import Path
from typing import NamedTuple

from surefind.images.decode import ImageRejected, decode_picture

SIDE = 112  # pixels of the longer side; crisp at the size the page shows
QUALITY = 80


class Thumbnail(NamedTuple):
    """A picture, or why there is none."""

    uri: str = ""  # data:, of a JPEG drawn anew: nothing of the file but its pixels
    width: int = 0
    height: int = 0
    reason: str = ""


def thumbnail(path: Path) -> Thumbnail:
    """Never fails: a picture that is missing or cannot be read says so in its place."""
    try:
        image = decode_picture(path)
    except ImageRejected as rejected:
        return Thumbnail(reason=rejected.reason)
    image.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY, optimize=True)
    return Thumbnail(data_uri("image/jpeg", file.getvalue()), *image.size)


def data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
