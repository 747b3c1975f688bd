"""How pixels become what an encoder takes; saved with its weights, since they depend on it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from surefind.errors import InvalidArgument
from surefind.validation import check_choice

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
RESIZES = ("squash", "crop", "pad")
INTERPOLATIONS = ("bicubic", "bilinear")
_LONGEST = 4  # times the shorter side; what is farther out cannot reach a centre crop


@dataclass(frozen=True)
class Preprocessing:
    """Size and colours of the input; two encoders agree only if these do.

    >>> Preprocessing(size=64, resize="pad").resize_image(torch.zeros(3, 20, 90).byte()).shape
    torch.Size([3, 64, 64])
    """

    size: int = 224  # side of the square input
    resize: str = "squash"  # ignore the aspect; "crop" the centre; "pad" with the mean colour
    crop_share: float = 1.0  # of the shorter side that "crop" keeps
    interpolation: str = "bicubic"  # or "bilinear"; both with antialiasing
    mean: tuple[float, float, float] = IMAGENET_MEAN  # of red, green, blue in 0..1
    std: tuple[float, float, float] = IMAGENET_STD

    def __post_init__(self) -> None:
        check_choice("resize", self.resize, RESIZES)
        check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        _require(
            type(self.size) is int and 1 <= self.size <= 4096,
            "size",
            "a whole number from 1 to 4096",
            self.size,
        )
        _require(
            _are_numbers(self.crop_share) and 0 < self.crop_share <= 1,
            "crop_share",
            "a share in (0, 1]",
            self.crop_share,
        )
        for name in ("mean", "std"):
            values = getattr(self, name)
            _require(
                isinstance(values, tuple | list) and len(values) == 3 and _are_numbers(*values),
                name,
                "three finite numbers",
                values,
            )
            object.__setattr__(self, name, tuple(float(value) for value in values))
        _require(min(self.std) > 0, "std", "three numbers above 0", self.std)

    def resize_image(self, pixels: Tensor) -> Tensor:
        """One image, uint8 (3, H, W), to (3, size, size)."""
        height, width = pixels.shape[1:]
        if self.resize == "squash":
            return self._scale(pixels, self.size, self.size)
        if self.resize == "pad":
            share = self.size / max(height, width)
            inner = self._scale(pixels, *(max(1, round(side * share)) for side in (height, width)))
            colour = np.clip(np.rint(np.array(self.mean) * 255), 0, 255).astype(np.uint8)
            canvas = np.empty((3, self.size, self.size), np.uint8)  # torch copies in threads, which
            canvas[:] = colour[:, None, None]  # costs far more than it gains beside the decoders
            centre(torch.from_numpy(canvas), *inner.shape[1:]).numpy()[:] = inner.numpy()
            return torch.from_numpy(canvas)
        shorter = min(height, width)
        pixels = centre(pixels, *(min(side, _LONGEST * shorter) for side in (height, width)))
        share = max(self.size, round(self.size / self.crop_share)) / shorter
        scaled = self._scale(pixels, *(round(side * share) for side in pixels.shape[1:]))
        return centre(scaled, self.size, self.size)

    def normalise(self, batch: Tensor) -> Tensor:
        """uint8 (N, 3, S, S) to float32 with the mean and deviation taken out."""
        std = torch.tensor(self.std, device=batch.device)[:, None, None]
        mean = torch.tensor(self.mean, device=batch.device)[:, None, None]
        return batch.float().mul_(1 / (255 * std)).sub_(mean / std)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What `as_dict` gave; a name it does not know is an error, not ignored."""
        known = tuple(field.name for field in fields(cls))
        for name in values:
            check_choice("preprocessing", name, known)
        return cls(**values)

    def _scale(self, pixels: Tensor, height: int, width: int) -> Tensor:
        if pixels.shape[1:] == (height, width):
            return pixels
        scaled = F.interpolate(
            pixels[None], size=(height, width), mode=self.interpolation, antialias=True
        )
        return scaled[0]


def centre(pixels: Tensor, height: int, width: int) -> Tensor:
    """The middle of an image, as a view."""
    top, left = (pixels.shape[1] - height) // 2, (pixels.shape[2] - width) // 2
    return pixels[:, top : top + height, left : left + width]


def _are_numbers(*values: object) -> bool:
    return all(isinstance(value, int | float) and isfinite(value) for value in values)


def _require(condition: bool, argument: str, expected: str, got: object) -> None:
    if not condition:
        raise InvalidArgument(
            argument, expected=expected, got=repr(got), fix="pass such a value, or leave it out"
        )
