"""What an encoder is, apart from its weights."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import Any, Self

from surefind.embeddings import LARGEST_SPREAD, SMALLEST_SPREAD
from surefind.errors import InvalidArgument
from surefind.images.preprocess import Preprocessing
from surefind.validation import check_choice

FAMILIES = ("gaussian", "von-mises-fisher", "point")
_MOST = 65_536  # of sizes; beyond it a damaged file would ask for all memory there is
_INITIAL_SPREAD = 0.1  # D * var at the start: a tenth of the squared length of a unit mean


@dataclass(frozen=True)
class EncoderConfig:
    """Backbone, heads and preprocessing of an encoder."""

    backbone: str = "resnet50"  # a name of `known_backbones`
    dim: int = 512  # numbers per image: mean and one variance; all for the mean of "point"
    family: str = "gaussian"  # "von-mises-fisher", or "point" for a mean without variance
    dropout: float = 0.0  # inside the backbone, which must have dropout
    head_dropout: float = 0.0  # before the linear layers of the heads
    unit_pooling: bool = True  # pooled features of length 1 in the mean head
    unit_means: bool = True  # Gaussian means divided by their length; False: left free
    mean_scale: bool = True  # Gaussian means times one trained positive number
    variance_layer_norm: bool = True  # of pooled features in the variance head
    variance_hidden: int | None = None  # width of the variance head; None: at most 512
    variance_floor: float = 1e-6  # no variance is smaller
    initial_var: float | None = None  # None: 0.1 / D, a tenth of the squared length of unit means
    preprocessing: Preprocessing | None = None  # None: as the backbone's weights were trained

    def __post_init__(self) -> None:
        _check("backbone", self.backbone, "a name", fits=isinstance(self.backbone, str))
        check_choice("family", self.family, FAMILIES)
        least = 3 if self.family == "von-mises-fisher" else 2
        _check_size("dim", self.dim, least)
        for name in ("dropout", "head_dropout"):
            _check_number(name, getattr(self, name), 0, 1)
        for name in ("unit_pooling", "unit_means", "mean_scale", "variance_layer_norm"):
            value = getattr(self, name)
            _check(name, value, "true or false", fits=type(value) is bool)
        if self.variance_hidden is not None:
            _check_size("variance_hidden", self.variance_hidden, 1)
        _check_number("variance_floor", self.variance_floor, SMALLEST_SPREAD, LARGEST_SPREAD)
        if self.initial_var is not None:
            _check_number("initial_var", self.initial_var, 0, LARGEST_SPREAD)
        if self.has_variance:
            _check(
                "initial_var",
                self.initial_var,
                f"a variance above the floor of {self.variance_floor:g}",
                fits=self.starting_var > self.variance_floor,
            )
        _check(
            "preprocessing",
            self.preprocessing,
            "a Preprocessing",
            fits=self.preprocessing is None or isinstance(self.preprocessing, Preprocessing),
        )

    @property
    def has_variance(self) -> bool:
        """Whether the encoder tells how sure it is of an image."""
        return self.family != "point"

    @property
    def mean_dim(self) -> int:
        """D, the length of a mean."""
        return self.dim - self.has_variance

    @property
    def starting_var(self) -> float:
        return _INITIAL_SPREAD / self.mean_dim if self.initial_var is None else self.initial_var

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.preprocessing is not None:
            values["preprocessing"] = self.preprocessing.as_dict()
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What `as_dict` gave; a name it does not know is an error, not ignored."""
        known = tuple(field.name for field in fields(cls))
        for name in values:
            check_choice("encoder config", name, known)
        given = dict(values)
        preprocessing = given.get("preprocessing")
        if isinstance(preprocessing, Mapping):
            try:
                given["preprocessing"] = Preprocessing.from_dict(preprocessing)
            except (TypeError, ValueError) as error:
                if isinstance(error, InvalidArgument):
                    raise
                raise InvalidArgument(
                    "preprocessing",
                    expected="numbers where numbers belong",
                    got=repr(dict(preprocessing)),
                ) from error
        return cls(**given)


def _check(argument: str, value: object, expected: str, *, fits: bool) -> None:
    if not fits:
        raise InvalidArgument(argument, expected=expected, got=repr(value))


def _check_size(argument: str, value: object, least: int) -> None:
    fits = type(value) is int and least <= value <= _MOST
    _check(argument, value, f"a whole number from {least} to {_MOST}", fits=fits)


def _check_number(argument: str, value: object, least: float, below: float = inf) -> None:
    fits = type(value) in (int, float) and least <= float(value) < below  # type: ignore[arg-type]
    _check(argument, value, f"a number from {least:g} to below {below:g}", fits=fits)
