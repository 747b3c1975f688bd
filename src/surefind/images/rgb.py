"""Every kind of pixel to 8-bit RGB."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin

from surefind.images.unfit import Unfit

_CONVERTED = ("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr", "HSV")  # by Pillow, as one expects
_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N", "I")
_PREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}
_BITS_PER_SAMPLE = 258  # TIFF tag
_PHOTOMETRIC = 262  # TIFF tag; 0 means that white is stored as zero


def to_rgb(image: Image.Image) -> Image.Image:
    """A loaded image as RGB: alpha over white, 16 bits scaled to 8, other colour spaces converted.

    Floats and LAB are refused: their range or their white point is not known.
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
        raise Unfit(f"unsupported mode {image.mode}", fix="save it as an 8-bit RGB image")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> NDArray[np.uint8]:
    """The high bytes: Pillow's own conversion clips at 255, which turns most of it white."""
    values = np.asarray(image)
    depth, inverted = _tiff_depth(image)
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= 1 << depth:
        raise Unfit(
            f"unsupported grey values from {low} to {high}, expected {depth} bits",
            fix="save it as an 8-bit or 16-bit grey image",
        )
    grey = (values >> (depth - 8)).astype(np.uint8)
    if inverted:
        grey = 255 - grey
    transparent = image.info.get("transparency")
    return grey if transparent is None else np.where(values == transparent, np.uint8(255), grey)


def _tiff_depth(image: Image.Image) -> tuple[int, bool]:
    """Bits in use, and whether white is zero: Pillow leaves both to the reader for deep greys."""
    if not isinstance(image, TiffImagePlugin.TiffImageFile) or image.mode == "I":
        return 16, False
    twelve = image.tag_v2.get(_BITS_PER_SAMPLE) == (12,)
    return 12 if twelve else 16, image.tag_v2.get(_PHOTOMETRIC) == 0
