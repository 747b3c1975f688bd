"""MC dropout: variance of several passes with dropout at test time."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from surefind.embeddings import SMALLEST_SPREAD, Gaussians
from surefind.encoders.encoder import Encoder
from surefind.encoders.image_encoder import ImageEncoder, evaluating
from surefind.errors import InvalidArgument


class McDropoutEncoder(ImageEncoder):
    """Mean and variance (per dimension) of the unit means of several passes with dropout.

    In a pass all images lose the same units, so that embeddings do not depend on the batch.
    Only dropout is active; batch norm is in evaluation mode. Gal and Ghahramani 2016.

    Args:
        encoder: an encoder with dropout.
        passes: number of passes, at least 2.
        seed: of the dropout masks; the global random state is not changed.

    Raises:
        InvalidArgument: if the encoder has no dropout, or `passes` is less than 2.
    """

    def __init__(self, encoder: Encoder, *, passes: int = 50, seed: int = 0) -> None:
        if passes < 2:
            raise InvalidArgument("passes", expected="at least 2", got=str(passes))
        self.encoder, self.passes, self.seed = encoder, passes, seed
        self.preprocessing, self.trained_with = encoder.preprocessing, encoder.trained_with
        self._dropping = {part for part in encoder.modules() if _drops(part)}
        if not self._dropping:
            raise InvalidArgument(
                "encoder",
                expected="an encoder with dropout",
                got="none in its backbone or heads",
            )

    def embed_pixels(self, pixels: Tensor) -> Gaussians:
        encoder = self.encoder
        dropout = _SharedDropout(torch.Generator(self.device).manual_seed(self.seed))
        with self.evaluating(), dropout:
            features = encoder.features(pixels)
            only_heads_drop = not dropout.used
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

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    def empty(self) -> Gaussians:
        return Gaussians(torch.empty(0, self.encoder.config.mean_dim), torch.empty(0))

    def evaluating(self) -> AbstractContextManager[None]:
        return evaluating(self.encoder, but=self._dropping)


class _SharedDropout(TorchFunctionMode):
    """Dropout whose mask is drawn once for all rows of a batch."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator, self.used = generator, False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is not functional.dropout:
            return func(*args, **(kwargs or {}))
        return self._dropout(*args, **(kwargs or {}))

    def _dropout(
        self, features: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or p == 0:
            return features
        self.used = True
        shape = (1, *features.shape[1:])
        noise = torch.rand(shape, generator=self.generator, device=features.device)
        return features * (noise >= p) / (1 - p)


def _drops(part: nn.Module) -> bool:
    """Whether a module is dropout, or applies it by function as timm's dense layers do."""
    if isinstance(part, nn.Dropout):
        return part.p > 0
    drop_rate = getattr(part, "drop_rate", 0.0)
    return isinstance(drop_rate, float) and drop_rate > 0
