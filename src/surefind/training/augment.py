"""Random augmentation of a batch of images: rotation, crop, flip, colour jitter."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from surefind.training.recipe import AugmentPart

ASPECT = 4 / 3  # widest crop; its inverse is the tallest
LUMINANCE = (0.299, 0.587, 0.114)


def augment(part: AugmentPart, pixels: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Augment each image on its own: (N, 3, H, W) uint8 to (N, 3, size, size) uint8."""
    count = len(pixels)
    grid = functional.affine_grid(
        _views(part, count, generator), [count, 3, size, size], align_corners=False
    )
    views = functional.grid_sample(
        pixels.float(), grid, mode="bilinear", padding_mode="reflection", align_corners=False
    )
    recoloured = _recolour(part, views, generator)
    return recoloured.round_().clamp_(0, 255).to(torch.uint8)


def _views(part: AugmentPart, count: int, generator: torch.Generator) -> Tensor:
    """Affine maps (N, 2, 3) of [-1, 1]^2 from views to images."""
    area = _uniform(part.scale, 1, count, generator)
    aspect = _uniform(-math.log(ASPECT), math.log(ASPECT), count, generator).exp()
    width, height = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    x = (1 - width) * _uniform(-1, 1, count, generator)
    y = (1 - height) * _uniform(-1, 1, count, generator)
    angle = math.radians(part.rotation) * _uniform(-1, 1, count, generator)
    mirror = 1 - 2 * (_uniform(0, 1, count, generator) < 0.5 * part.flip).float()
    cos, sin = angle.cos(), angle.sin()
    rows = [width * mirror * cos, -height * sin, x, width * mirror * sin, height * cos, y]
    return torch.stack(rows, dim=1).view(count, 2, 3)


def _recolour(part: AugmentPart, views: Tensor, generator: torch.Generator) -> Tensor:
    """Apply hue, saturation, brightness and contrast as one linear map of the colours."""
    count = len(views)
    brightness, contrast, saturation = (
        _uniform(1 - part.jitter, 1 + part.jitter, count, generator)[:, None, None]
        for _ in range(3)
    )
    turn = _turn_hue(2 * math.pi * part.hue * _uniform(-1, 1, count, generator))
    grey = torch.tensor(LUMINANCE).expand(3, 3)
    colours = brightness * (saturation * torch.eye(3) + (1 - saturation) * grey) @ turn
    mean = brightness * (views.mean((2, 3)) @ torch.tensor(LUMINANCE))[:, None, None]
    flat = torch.baddbmm((1 - contrast) * mean, contrast * colours, views.flatten(2))
    return flat.view_as(views)


def _turn_hue(angle: Tensor) -> Tensor:
    """Rotations of the colours about the grey axis, (N, 3, 3)."""
    cos, sin = angle.cos()[:, None, None], angle.sin()[:, None, None]
    axis = torch.full((3, 3), 1 / 3)
    cross = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)
    return cos * torch.eye(3) + sin * cross + (1 - cos) * axis


def _uniform(low: float, high: float, count: int, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(count, generator=generator)
