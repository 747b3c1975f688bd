"""Recipe: every setting of a training run, read from TOML."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from surefind.errors import InvalidArgument, InvalidFile
from surefind.validation import parse

Share = Annotated[float, Field(ge=0, lt=1)]
TwoOrMore = Annotated[int, Field(ge=2)]
ThreeOrMore = Annotated[int, Field(ge=3)]


@dataclass(frozen=True)
class EncoderPart:
    """Network."""

    backbone: str = "resnet50.tv_in1k"  # any of timm's, or "tiny", "resnet50_v1"
    weights: str = "pretrained"  # "pretrained" (downloaded), "none", or a safetensors file
    dim: NonNegativeInt = 0  # of a mean; 0: with the variance, as many numbers as the backbone
    family: Literal["gaussian", "von-mises-fisher", "point"] = "gaussian"
    unit_pooling: bool = True  # l2 normalisation after the mean head's GeM
    unit_means: bool = True  # a Gaussian's mean is x/|x|, else x
    mean_scale: bool = True  # Gaussian means times one trained positive number
    variance_layer_norm: bool = True  # after the variance head's GeM
    dropout: Share = 0.0  # in the backbone, which must have dropout
    head_dropout: Share = 0.0  # before the heads' linear layers
    initial_spread: PositiveFloat = 0.1  # D * variance at the start
    start: Literal["random", "pca"] = "random"  # of the mean head
    size: PositiveInt = 224  # pixels, after training
    resize: Literal["squash", "crop", "pad"] = "squash"


@dataclass(frozen=True)
class LossPart:
    """Loss."""

    name: Literal["triplet", "triplet-regression", "bayesian"] = "bayesian"
    margin: float | None = None  # 0 for bayesian, 0.2 for the others
    kl_scale: float = 1e-6
    method: Literal["clt", "saddlepoint", "exact"] = "clt"
    centred: bool = False  # bias-corrected: the means alone decide which image is nearer
    floor: Share = 0.0  # added to the probability, which bounds the loss
    prior_var: float | None = None  # of the Gaussian prior; 1/D, unless given
    sphere: Literal["exact", "gaussian"] = "exact"  # gaussian: moments with variance 1/kappa

    @property
    def own_margin(self) -> float:
        """The margin of the loss, which mining uses as well."""
        if self.margin is not None:
            return self.margin
        return 0.0 if self.name == "bayesian" else 0.2


@dataclass(frozen=True)
class BatchPart:
    """Images of one step."""

    kind: Literal["tuples", "balanced"] = "tuples"
    tuples: PositiveInt = 25  # of an anchor, a positive and some negatives
    negatives: PositiveInt = 5
    classes: TwoOrMore = 16  # balanced: every triplet of classes * images
    images: TwoOrMore = 4
    chunk: NonNegativeInt = 0  # images embedded at once (gradient caching), to save memory; 0: all


@dataclass(frozen=True)
class MiningPart:
    """Cache of hard negatives, for batches of tuples.

    A triplet is used if it violates d_ap - d_an + margin <= 0, with the model's own distances of
    means and the margin of the loss.
    """

    cache: ThreeOrMore = 5000  # images
    every: PositiveInt = 1000  # steps between two fillings


@dataclass(frozen=True)
class OptimiserPart:
    """Adam, learning rates and frozen parameters."""

    lr: PositiveFloat = 1e-5
    backbone_lr: float | None = None  # lr, unless given
    variance_lr: float | None = None  # lr, unless given
    weight_decay: float = 1e-3
    decay: PositiveFloat = 0.99  # of the learning rates, per epoch
    freeze: Literal["none", "backbone"] = "none"  # backbone: feature maps are computed once
    freeze_first: tuple[str, ...] = ()  # parameters of the backbone by the start of their names
    batch_norm: Literal["frozen", "trained"] = "frozen"  # its running statistics
    clip: float | None = None  # of the gradient's norm


@dataclass(frozen=True)
class AugmentPart:
    """Random views of the training images."""

    use: bool = True
    rotation: float = 10.0  # degrees, either way
    scale: PositiveFloat = 0.4  # least share of the image's area that a crop keeps
    jitter: float = 0.2  # of brightness, contrast and saturation
    hue: float = 0.05  # of a full turn
    flip: bool = True
    size: int | None = None  # pixels during training; the encoder's, unless given
    views: PositiveInt = 4  # of each image when the backbone is frozen


@dataclass(frozen=True)
class VariancePart:
    """Second phase that trains only the variance; the best model by validation is saved."""

    steps: NonNegativeInt = 0  # 0: no such phase
    held_out: Share = 0.0  # share of the training classes that only this phase uses; 0: all
    lr: float = 5e-3
    margin: float | None = None  # of the loss; its own, unless given


@dataclass(frozen=True)
class SchedulePart:
    """Length of the run, validation and checkpoints."""

    steps: PositiveInt = 20_000
    validate_every: PositiveInt = 1000
    keep_by: Literal["recall", "both"] = "recall"  # both: MAP@R + AUROC of the variance
    patience: NonNegativeInt = 10  # validations without a better one before it stops; 0: never
    checkpoint_every: PositiveInt = 500
    log_every: PositiveInt = 10


@dataclass(frozen=True)
class DataPart:
    """Image loading and validation split."""

    workers: int = 0  # processes; 0: threads of this one
    memory: bool = False  # decode all training images once and keep them
    max_bad_share: float = 0.05  # of unreadable images before training stops
    val_share: Share = 0.1  # of the training classes, held out to validate on
    radius: float = 25.0  # metres, for images with positions


@dataclass(frozen=True)
class Recipe:
    """Every setting of a training run; raise InvalidArgument if two settings do not go together."""

    seed: int = 0  # of everything random
    encoder: EncoderPart = field(default_factory=EncoderPart)
    loss: LossPart = field(default_factory=LossPart)
    batch: BatchPart = field(default_factory=BatchPart)
    mining: MiningPart = field(default_factory=MiningPart)
    optimiser: OptimiserPart = field(default_factory=OptimiserPart)
    augment: AugmentPart = field(default_factory=AugmentPart)
    variance: VariancePart = field(default_factory=VariancePart)
    schedule: SchedulePart = field(default_factory=SchedulePart)
    data: DataPart = field(default_factory=DataPart)

    def __post_init__(self) -> None:
        if self.encoder.family != "point":
            return
        if self.loss.name != "triplet":
            needs = f"a distribution, as loss {self.loss.name!r} needs one"
            raise InvalidArgument("encoder.family", expected=needs, got="'point'")
        if self.variance.steps:
            raise InvalidArgument(
                "variance.steps", expected="0, as points have no variance", got=str(self.variance.steps)
            )

    @classmethod
    def read(cls, source: str | Path, overrides: Sequence[str] = ()) -> Self:
        """Read a recipe.

        Args:
            source: a TOML file, or the name of a built-in recipe; of `one+other` the keys of the
                second override those of the first.
            overrides: single keys, as `table.key=value`.

        Raises:
            InvalidFile: if there is no such recipe, or a key is unknown or has a wrong value.
        """
        values: dict[str, Any] = {}
        for layer in [source] if Path(source).is_file() else str(source).split("+"):
            _merge(values, _layers(find_recipe(layer), ()))
        for override in overrides:
            _override(values, override)
        return cls.from_dict(values, where=Path(source).name)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "recipe") -> Self:
        """Make a recipe of nested values, one mapping per table; raise InvalidFile if one is unknown or wrong."""
        return parse(cls, values, where=where)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_toml(self) -> str:
        """Every key, as TOML."""
        lines = [f"seed = {self.seed}"]
        for table, values in self.as_dict().items():
            if isinstance(values, dict):
                lines += ["", f"[{table}]"]
                lines += [f"{k} = {json.dumps(v)}" for k, v in values.items() if v is not None]
        return "\n".join(lines) + "\n"


def recipe_names() -> list[str]:
    """Names of the built-in recipes."""
    return sorted(path.stem for path in _recipe_folder().glob("*.toml"))


def find_recipe(source: str | Path) -> Path:
    path = Path(source)
    if path.is_file():
        return path
    ours = _recipe_folder() / f"{path.name.removesuffix('.toml')}.toml"
    if ours.is_file() and path.parent in (Path(), Path("recipes")):
        return ours
    near = get_close_matches(path.stem, recipe_names(), n=3, cutoff=0.4)
    raise InvalidFile(
        f"no recipe {str(source)!r}", fix=("did you mean " + ", ".join(near) + "?") if near else "name a TOML file"
    )


def _layers(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    """Merge the keys of a recipe file over those of the recipes that it extends."""
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidFile(f"cannot read {path} as TOML: {error}") from error
    extends = values.pop("extends", [])
    merged: dict[str, Any] = {}
    for base in [extends] if isinstance(extends, str) else extends:
        beside = path.parent / f"{base}.toml"
        found = beside if beside.is_file() else find_recipe(base)
        if found in (*above, path):
            raise InvalidFile(f"{path.name} extends itself by way of {base!r}")
        _merge(merged, _layers(found, (*above, path)))
    return _merge(merged, values)


def _merge(values: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `others` into `values`, table by table."""
    for key, value in others.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = value
    return values


def _recipe_folder() -> Path:
    package = Path(__file__).parents[1]
    inside = package / "recipes"  # in a wheel
    return inside if inside.is_dir() else package.parents[1] / "recipes"


def _override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise InvalidArgument("--set", expected="key=value", got=repr(override), fix="e.g. --set loss.margin=0.1")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    *tables, last = key.strip().split(".")
    table = values
    for name in tables:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise InvalidArgument("--set", expected="table.key=value", got=repr(override))
    table[last] = value
