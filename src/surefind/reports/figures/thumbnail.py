"""A small square with a picture in it."""

from pathlib import Path

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from PIL import Image, ImageOps

from surefind.images.decode import ImageRejected, decode_picture
from surefind.reports.figures.palette import PALE

SIDE = 200


def thumbnail(root: str | Path, path: str) -> NDArray[np.uint8]:
    """The whole picture on grey, (SIDE, SIDE, 3); only grey where it cannot be read."""
    tile = Image.new("RGB", (SIDE, SIDE), tuple(round(255 * c) for c in to_rgb(PALE)))
    try:
        picture = decode_picture(Path(root) / path)
    except ImageRejected:
        return np.array(tile)
    image = ImageOps.contain(picture, (SIDE, SIDE))
    tile.paste(image, ((SIDE - image.width) // 2, (SIDE - image.height) // 2))
    return np.array(tile)
