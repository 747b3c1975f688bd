"""Configuration of an encoder."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field
from torch import Tensor

from surefind.embeddings import LARGEST_SPREAD, SMALLEST_SPREAD, Embeddings, Gaussians, VonMisesFisher
from surefind.errors import InvalidArgument
from surefind.images.preprocess import Preprocessing
from surefind.validation import check_choice, check_fields, make

FAMILIES = ("gaussian", "von-mises-fisher", "point")
_MOST = 65_536  # of sizes, so that a damaged file does not exhaust the memory
Rate = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class EncoderConfig:
    """Backbone, heads and preprocessing of an encoder; raise InvalidArgument if a value is not valid."""

    backbone: str = "resnet50"  # a name of `known_backbones`
    dim: Annotated[int, Field(ge=2, le=_MOST)] = 512  # D, the numbers of a mean
    family: str = "gaussian"  # or "von-mises-fisher", or "point" for a mean without variance
    dropout: Rate = 0.0  # inside the backbone, which must have dropout
    head_dropout: Rate = 0.0  # before the linear layers of the heads
    unit_pooling: bool = True  # pooled features have length 1 in the mean head
    projection: bool = True  # a linear layer makes the mean; without it, `dim` is the backbone's channels
    unit_means: bool = True  # Gaussian means are divided by their length
    mean_scale: bool = True  # Gaussian means are multiplied by one trained positive number
    variance_layer_norm: bool = True  # pooled features are standardised in the variance head
    variance_hidden: Annotated[int, Field(ge=1, le=_MOST)] | None = None  # its width; by default at most 512
    variance_floor: Annotated[float, Field(ge=SMALLEST_SPREAD, lt=LARGEST_SPREAD)] = 1e-6  # of every variance
    # By default 0.1 / D, a tenth of the squared length of unit means.
    initial_var: Annotated[float, Field(ge=0, lt=LARGEST_SPREAD)] | None = None
    preprocessing: Preprocessing | None = None  # by default that of the backbone's weights

    def __post_init__(self) -> None:
        check_choice("family", self.family, FAMILIES)
        check_fields(self)
        if self.has_variance and not self.starting_var > self.variance_floor:
            raise InvalidArgument(
                "initial_var",
                expected=f"a variance above the floor of {self.variance_floor:g}",
                got=repr(self.initial_var),
            )

    @property
    def has_variance(self) -> bool:
        return self.family != "point"

    @property
    def starting_var(self) -> float:
        return 0.1 / self.dim if self.initial_var is None else self.initial_var

    def distributions(self, mean: Tensor, var: Tensor) -> Embeddings:
        """Embeddings from means (N, D) and variances (N,); on the sphere, 1 / kappa."""
        if self.family == "von-mises-fisher":
            return VonMisesFisher(mean, 1 / var)
        return Gaussians(mean, var)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild from the values of JSON; an unknown name raises InvalidArgument."""
        given = dict(values)
        if isinstance(preprocessing := given.get("preprocessing"), Mapping):
            given["preprocessing"] = make(Preprocessing, preprocessing, argument="preprocessing")
        return make(cls, given, argument="encoder config")
