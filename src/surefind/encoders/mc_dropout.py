"""Uncertainty by dropout at test time: many passes, and how far they disagree."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.dropout import _DropoutNd

from surefind.embeddings import SMALLEST_SPREAD, Gaussians
from surefind.encoders.encoder import Encoder
from surefind.encoders.encoding import ImageEncoder
from surefind.encoders.modes import evaluating
from surefind.errors import InvalidArgument


class McDropoutEncoder(ImageEncoder):
    """Mean of the unit means of several passes with dropout, and their variance per dimension.

    Only dropout is switched on: batch norm keeps its statistics, and every mode is restored. The
    same seed gives the same result, and no other randomness moves. Gal and Ghahramani 2016.
    """

    parallel = False  # torch's random numbers have one order

    def __init__(self, encoder: Encoder, *, passes: int = 50, seed: int = 0) -> None:
        if passes < 2:
            raise InvalidArgument(
                "passes",
                expected="at least 2, to see them disagree",
                got=str(passes),
                fix="50 is usual",
            )
        self.encoder, self.passes, self.seed = encoder, passes, seed
        self.preprocessing, self.trained_with = encoder.preprocessing, encoder.trained_with
        self._dropping = {part for part in encoder.modules() if _drops(part)}
        if not self._dropping:
            raise InvalidArgument(
                "encoder",
                expected="an encoder with dropout",
                got="none in its backbone or heads",
                fix="train it with dropout, such as 0.2",
            )

    def __call__(self, pixels: Tensor) -> Gaussians:
        """Normalised pixels (N, 3, S, S) to N Gaussians."""
        encoder, device = self.encoder, self.device
        with self.evaluating(), torch.random.fork_rng(devices=_cuda(device)):
            _seed(self.seed, device)
            before = _random_state(device)
            features = encoder.features(pixels)
            only_heads_drop = torch.equal(before, _random_state(device))
            means = [functional.normalize(encoder.embed(features).mean, dim=1)]
            for _ in range(self.passes - 1):
                if not only_heads_drop:
                    features = encoder.features(pixels)
                means.append(functional.normalize(encoder.embed(features).mean, dim=1))
        stacked = torch.stack(means)
        var = stacked.var(dim=0).mean(dim=1).clamp(min=SMALLEST_SPREAD)
        return Gaussians(stacked.mean(dim=0), var)

    @property
    def fingerprint(self) -> str:
        return f"{self.encoder.fingerprint}-mc{self.passes}-{self.seed}"

    @property
    def has_variance(self) -> bool:
        return True

    def embed_pixels(self, pixels: Tensor) -> Gaussians:
        return self(pixels)

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    def empty(self) -> Gaussians:
        return Gaussians(torch.empty(0, self.encoder.config.mean_dim), torch.empty(0))

    def evaluating(self) -> AbstractContextManager[None]:
        return evaluating(self.encoder, but=self._dropping)


def _drops(part: nn.Module) -> bool:
    """Whether a module is dropout, or applies it by function as timm's dense layers do."""
    if isinstance(part, _DropoutNd):
        return part.p > 0
    drop_rate = getattr(part, "drop_rate", 0.0)
    return isinstance(drop_rate, float) and drop_rate > 0


def _cuda(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []


def _random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if _cuda(device) else torch.get_rng_state()


def _seed(seed: int, device: torch.device) -> None:
    torch.default_generator.manual_seed(seed)
    for gpu in _cuda(device):
        with torch.cuda.device(gpu):
            torch.cuda.manual_seed(seed)
