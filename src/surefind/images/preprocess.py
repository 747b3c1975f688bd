"""Preprocessing: resize and normalise pixels; saved with the weights of an encoder."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field, FiniteFloat
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from surefind.validation import check_choice, check_fields

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
RESIZES = ("squash", "crop", "pad")
INTERPOLATIONS = ("bicubic", "bilinear")
Colour = tuple[FiniteFloat, FiniteFloat, FiniteFloat]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_LONGEST = 4  # times the shorter side: what is farther out cannot reach a centre crop


@dataclass(frozen=True)
class Preprocessing:
    """Size and normalisation of the input.

    >>> Preprocessing(size=64, resize="pad").resize_image(torch.zeros(3, 20, 90).byte()).shape
    torch.Size([3, 64, 64])
    """

    # side of the square input
    size: Annotated[int, Field(ge=1, le=4096), "a whole number from 1 to 4096"] = 224
    resize: str = "squash"  # ignores the aspect; or "crop" the centre, "pad" with the mean colour
    # of the shorter side that "crop" keeps
    crop_share: Annotated[float, Field(gt=0, le=1), "a share in (0, 1]"] = 1.0
    interpolation: str = "bicubic"  # or "bilinear"; both with antialiasing
    # of red, green, blue in 0..1
    mean: Annotated[Colour, "three finite numbers"] = IMAGENET_MEAN
    std: Annotated[tuple[Positive, Positive, Positive], "three numbers above 0"] = IMAGENET_STD

    def __post_init__(self) -> None:
        for name in ("mean", "std"):  # lists, as JSON has them
            if isinstance(values := getattr(self, name), list):
                object.__setattr__(self, name, tuple(values))
        check_choice("resize", self.resize, RESIZES)
        check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        check_fields(self)

    def resize_image(self, pixels: Tensor) -> Tensor:
        """Resize one image, uint8 (3, H, W), to (3, size, size)."""
        height, width = pixels.shape[1:]
        if self.resize == "squash":
            return self._scale(pixels, self.size, self.size)
        if self.resize == "pad":
            share = self.size / max(height, width)
            inner = self._scale(pixels, *(max(1, round(side * share)) for side in (height, width)))
            colour = np.clip(np.rint(np.array(self.mean) * 255), 0, 255).astype(np.uint8)
            canvas = np.empty((3, self.size, self.size), np.uint8)  # numpy: torch starts threads
            canvas[:] = colour[:, None, None]
            centre(torch.from_numpy(canvas), *inner.shape[1:]).numpy()[:] = inner.numpy()
            return torch.from_numpy(canvas)
        shorter = min(height, width)
        pixels = centre(pixels, *(min(side, _LONGEST * shorter) for side in (height, width)))
        scale = math.floor(self.size / self.crop_share)  # rounded as by timm, here and in `centre`
        scaled = self._scale(pixels, *(scale * side // shorter for side in pixels.shape[1:]))
        return centre(scaled, self.size, self.size)

    def normalise(self, batch: Tensor) -> Tensor:
        """Normalise uint8 (N, 3, S, S) to float32 by mean and standard deviation."""
        std = torch.tensor(self.std, device=batch.device)[:, None, None]
        mean = torch.tensor(self.mean, device=batch.device)[:, None, None]
        return batch.float().mul_(1 / (255 * std)).sub_(mean / std)

    def _scale(self, pixels: Tensor, height: int, width: int) -> Tensor:
        if pixels.shape[1:] == (height, width):
            return pixels
        scaled = F.interpolate(pixels[None], size=(height, width), mode=self.interpolation, antialias=True)
        return scaled[0]


def centre(pixels: Tensor, height: int, width: int) -> Tensor:
    """Return the centre of an image, as a view."""
    top, left = round((pixels.shape[1] - height) / 2), round((pixels.shape[2] - width) / 2)
    return pixels[:, top : top + height, left : left + width]
