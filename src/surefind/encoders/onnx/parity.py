"""How far an exported model is from the one it was made of."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from surefind.embeddings import Embeddings, VonMisesFisher
from surefind.encoders.encoding import ImageEncoder
from surefind.errors import SurefindError

TOLERANCE = 1e-3  # of float32: other orders of adding differ by about 1e-6
MADE_UP = 16  # images, where none were given


class Parity(NamedTuple):
    """Differences as a share of what the model says, over some images."""

    images: int
    mean_largest: float  # of the distance between two means, to the length of the model's
    mean_typical: float
    cosine_least: float  # between two means
    cosine_typical: float
    var_largest: float
    var_typical: float

    def as_dict(self) -> dict[str, float]:
        return self._asdict()


@torch.inference_mode()
def parity(model: ImageEncoder, exported: ImageEncoder, batches: Sequence[Tensor]) -> Parity:
    """Compare two encoders on normalised pixels, batch by batch."""
    with model.evaluating():
        wanted = _together([model.embed_pixels(pixels) for pixels in batches])
    found = _together([exported.embed_pixels(pixels) for pixels in batches])
    (mean, var), (other, other_var) = wanted, found
    apart = (other - mean).norm(dim=1) / mean.norm(dim=1)
    cosine = functional.cosine_similarity(mean, other, dim=1)
    ratio = (other_var - var).abs() / var
    return Parity(
        images=len(mean),
        mean_largest=float(apart.max()),
        mean_typical=float(apart.median()),
        cosine_least=float(cosine.min()),
        cosine_typical=float(cosine.median()),
        var_largest=float(ratio.max()),
        var_typical=float(ratio.median()),
    )


def check_parity(found: Parity) -> None:
    """Refuse an export in float32 that does not say what the model says."""
    far = (found.mean_largest, found.var_largest)
    if not all(value <= TOLERANCE for value in far):  # nor if one is not a number
        worst = next(value for value in far if not value <= TOLERANCE)
        raise SurefindError(
            f"the exported model differs from the model by up to {worst:.2g}, "
            f"at most {TOLERANCE:g} is rounding; nothing was written",
            fix="use --runtime torch, and report it with the versions that surefind doctor prints",
        )


def made_up_images(size: int, count: int = MADE_UP) -> Tensor:
    """Pictures of coloured clouds, uint8 (count, 3, size, size); always the same."""
    random = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 4, 4, generator=random)
    fine = torch.rand(count, 3, size, size, generator=random)
    clouds = functional.interpolate(coarse, size=(size, size), mode="bilinear")
    return ((0.8 * clouds + 0.2 * fine) * 255).to(torch.uint8)


def _together(parts: Sequence[Embeddings]) -> tuple[Tensor, Tensor]:
    """Means and variances, in float64."""
    mean = torch.cat([part.mean for part in parts]).double()
    var = torch.cat(
        [1 / part.kappa if isinstance(part, VonMisesFisher) else part.spread for part in parts]
    )
    return mean, var.double()
