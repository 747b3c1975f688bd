"""Small pictures drawn anew: pixels only, whatever else the file carried."""

import io

from PIL import Image

from surefind.images.decode import decode_picture

QUALITY = 85
TINY = 64  # longest side of a picture that is drawn enlarged


def draw_thumbnail(content: bytes, side: int) -> bytes:
    """A JPEG no longer than `side` of an image file: upright, of its first frame, no metadata.

    A tiny picture is enlarged by a whole factor, each pixel a square: smoothed, a blurred picture
    could not be told from a sharp one, and its JPEG were three times as large.
    """
    picture = decode_picture(content)
    longest = max(picture.size)
    if longest <= TINY and side >= 2 * longest:
        picture = _resized(picture, side // longest, Image.Resampling.NEAREST)
    else:
        picture = shrunk(picture, side)
    return as_jpeg(picture, quality=QUALITY)


def as_jpeg(picture: Image.Image, *, quality: int) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality, subsampling=0)  # coloured edges stay sharp
    return file.getvalue()


def as_png(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def shrunk(picture: Image.Image, longest: int) -> Image.Image:
    """The picture, or a smaller one with that longest side."""
    if max(picture.size) <= longest:
        return picture
    return _resized(picture, longest / max(picture.size), Image.Resampling.LANCZOS)


def _resized(picture: Image.Image, by: float, how: Image.Resampling) -> Image.Image:
    width, height = (max(1, round(length * by)) for length in picture.size)
    return picture.resize((width, height), how, reducing_gap=3.0)  # looks the same, 50 MP sooner
