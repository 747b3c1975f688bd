"""Everything that decides a training run, as one value that a TOML file can say."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, Self

from surefind.errors import InvalidArgument, InvalidFile
from surefind.settings import parse


@dataclass(frozen=True)
class EncoderPart:
    """The network."""

    backbone: str = "resnet50"  # any of timm's, or "tiny", "resnet50_v1"
    weights: str = "pretrained"  # "pretrained" (downloaded), "none", or a safetensors file
    dim: int = 2048  # numbers per image: a mean of dim - 1 and a variance, or a point of dim
    family: Literal["gaussian", "von-mises-fisher", "point"] = "gaussian"
    unit_means: bool = True  # a Gaussian's mean is scale * x/|x|, else scale * x
    dropout: float = 0.0  # before the heads' linear layers, and in backbones that have it
    initial_spread: float = 0.1  # D * variance at the start
    start: Literal["random", "pca"] = "random"  # of the mean head
    size: int = 224  # pixels, after training
    resize: Literal["squash", "crop", "pad"] = "squash"


@dataclass(frozen=True)
class LossPart:
    """What is minimised."""

    name: Literal["triplet", "triplet-regression", "bayesian"] = "bayesian"
    margin: float | None = None  # 0 for bayesian, 0.2 for the others
    kl_scale: float = 1e-6
    method: Literal["clt", "saddlepoint", "exact"] = "clt"
    centred: bool = False
    sphere: Literal["exact", "gaussian"] = "exact"


@dataclass(frozen=True)
class BatchPart:
    """Which images make one step."""

    kind: Literal["tuples", "balanced"] = "tuples"
    tuples: int = 25  # of an anchor, a positive and some negatives
    negatives: int = 5
    classes: int = 16  # balanced: every triplet of classes * images
    images: int = 4
    chunk: int = 0  # images embedded at once (gradient caching); 0: the whole batch


@dataclass(frozen=True)
class MiningPart:
    """The cache of hard negatives (tuples), and what uncertainty has to say there."""

    cache: int = 5000  # images
    every: int = 1000  # steps between two fillings
    margin: float = 0.2  # a triplet of unit means violates if d_ap - d_an + margin > 0
    candidates: int = 50  # nearest negatives that a tuple's are taken from
    uncertainty: Literal["ignore", "weight", "skip"] = "ignore"
    skip_share: float = 0.1  # skip: of the vaguest images
    skip_above: float = 0.95  # skip: triplets already right with this probability


@dataclass(frozen=True)
class OptimiserPart:
    """Adam and who takes part."""

    lr: float = 1e-5
    backbone_lr: float | None = None  # lr, unless given
    variance_lr: float | None = None  # lr, unless given
    weight_decay: float = 1e-3
    decay: float = 0.99  # of the learning rates, per epoch
    freeze: Literal["none", "backbone"] = "none"  # backbone: feature maps are computed once
    freeze_first: tuple[str, ...] = ()  # parameters of the backbone by the start of their names
    batch_norm: Literal["frozen", "trained"] = "frozen"  # its running statistics
    clip: float | None = None  # of the gradient's norm


@dataclass(frozen=True)
class AugmentPart:
    """Random views of the training images."""

    use: bool = True
    rotation: float = 10.0  # degrees, either way
    scale: float = 0.4  # least share of the image's area that a crop keeps
    jitter: float = 0.2  # of brightness, contrast and saturation
    hue: float = 0.05  # of a full turn
    flip: bool = True
    size: int | None = None  # pixels during training; the encoder's, unless given
    views: int = 4  # of each image when the backbone is frozen


@dataclass(frozen=True)
class VariancePart:
    """A second phase that teaches only the variance, on classes the mean was not fitted to."""

    held_out: float = 0.0  # share of the training classes; 0: no such phase
    steps: int = 300
    lr: float = 5e-3
    margin: float | None = None  # of the loss; its own, unless given


@dataclass(frozen=True)
class SchedulePart:
    """How long."""

    steps: int = 20_000
    validate_every: int = 1000
    patience: int = 10  # validations without a better one before training stops
    checkpoint_every: int = 500
    log_every: int = 10


@dataclass(frozen=True)
class DataPart:
    """How images reach the network."""

    workers: int = 0  # processes; 0: threads of this one
    memory: bool = False  # decode all training images once and keep them
    max_bad_share: float = 0.05  # of unreadable images before training stops
    radius: float = 25.0  # metres, for images with positions


@dataclass(frozen=True)
class Recipe:
    """One run."""

    seed: int = 0
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
        _check(self)

    @classmethod
    def read(cls, source: str | Path, overrides: Sequence[str] = ()) -> Self:
        """A file, or the name of a recipe that comes with surefind; overrides are `a.b=c`."""
        path = find_recipe(source)
        try:
            values = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidFile(f"cannot read {path}: {error}", fix="give a TOML file") from error
        for override in overrides:
            _override(values, override)
        return cls.from_dict(values, where=str(path.name))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "recipe") -> Self:
        return parse(cls, values, where=where)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_toml(self) -> str:
        """Every key, ready to be read again."""
        lines = [f"seed = {self.seed}"]
        for table, values in self.as_dict().items():
            if isinstance(values, dict):
                lines += ["", f"[{table}]"]
                lines += [f"{k} = {json.dumps(v)}" for k, v in values.items() if v is not None]
        return "\n".join(lines) + "\n"


def recipe_names() -> list[str]:
    """Of the recipes that come with surefind."""
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
        f"there is no recipe {str(source)!r}",
        fix=("did you mean " + ", ".join(near) + "?") if near else "name a TOML file",
    )


def _recipe_folder() -> Path:
    package = Path(__file__).parents[1]
    inside = package / "recipes"  # in a wheel
    return inside if inside.is_dir() else package.parents[1] / "recipes"


def _override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise InvalidArgument(
            "--set", expected="key=value", got=repr(override), fix="e.g. --set loss.margin=0.1"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    *tables, last = key.strip().split(".")
    table = values
    for name in tables:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise InvalidArgument(
                "--set", expected="table.key=value", got=repr(override), fix="check the key"
            )
    table[last] = value


def _check(recipe: Recipe) -> None:
    """What no single key's type can say."""
    positive = {
        "encoder.dim": recipe.encoder.dim - 1,
        "encoder.size": recipe.encoder.size,
        "encoder.initial_spread": recipe.encoder.initial_spread,
        "batch.tuples": recipe.batch.tuples,
        "batch.negatives": recipe.batch.negatives,
        "batch.classes": recipe.batch.classes - 1,
        "batch.images": recipe.batch.images - 1,
        "mining.cache": recipe.mining.cache - 2,
        "mining.every": recipe.mining.every,
        "mining.candidates": recipe.mining.candidates,
        "optimiser.lr": recipe.optimiser.lr,
        "optimiser.decay": recipe.optimiser.decay,
        "augment.scale": recipe.augment.scale,
        "augment.views": recipe.augment.views,
        "schedule.steps": recipe.schedule.steps,
        "schedule.validate_every": recipe.schedule.validate_every,
        "schedule.checkpoint_every": recipe.schedule.checkpoint_every,
        "schedule.log_every": recipe.schedule.log_every,
    }
    for name, value in positive.items():
        if not value > 0:
            _refuse(recipe, name, "a larger number")
    if not 0 <= recipe.variance.held_out < 1:
        _refuse(recipe, "variance.held_out", "a share below 1")
    if not 0 <= recipe.encoder.dropout < 1:
        _refuse(recipe, "encoder.dropout", "a share below 1")
    if recipe.encoder.family == "point":
        if recipe.loss.name != "triplet":
            _refuse(
                recipe, "encoder.family", f"a distribution, as loss {recipe.loss.name!r} needs one"
            )
        if recipe.variance.held_out:
            _refuse(recipe, "variance.held_out", "0, as points have no variance")


def _refuse(recipe: Recipe, name: str, expected: str) -> None:
    got = repr(attrgetter(name)(recipe))
    raise InvalidArgument(name, expected=expected, got=got, fix=f"set {name}")
