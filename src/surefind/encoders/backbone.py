"""What turns pixels into a map of features: a timm model by name, or a small one of our own."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from surefind.encoders.torchvision_guard import import_torchvision
from surefind.encoders.weights import load_weights
from surefind.errors import InvalidArgument, SurefindError
from surefind.images.preprocess import INTERPOLATIONS, Preprocessing

OWN = {  # beside timm's
    "tiny": Preprocessing(
        size=32, interpolation="bilinear", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)
    ),
    "resnet50_v1": Preprocessing(resize="crop", crop_share=0.875, interpolation="bilinear"),
}
_PATIENCE = 5.0  # seconds for the hub to answer at all; it retries for a minute by itself
_RESIZES = {"center": "crop", "squash": "squash", "border": "pad"}  # timm's names for them


class TinyConvNet(nn.Module):
    """Four 3x3 convolutions, each halving the picture but the last: 32 px -> a 4 x 4 map.

    Quick to train from scratch on a CPU. Group norm instead of batch norm: an image's features do
    not depend on its batch, so chunks and processes agree.
    """

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        self.num_features = channels
        widths = (3, channels // 4, channels // 2, channels, channels)
        layers: list[nn.Module] = []
        for come, leave, stride in zip(widths, widths[1:], (2, 2, 2, 1), strict=False):
            convolution = nn.Conv2d(come, leave, 3, stride=stride, padding=1, bias=False)
            stage = (convolution, nn.GroupNorm(8, leave), nn.ReLU(inplace=True))
            layers.append(nn.Sequential(*stage))
        self.stages = nn.Sequential(*layers)

    def forward_features(self, pixels: Tensor) -> Tensor:
        features: Tensor = self.stages(pixels)
        return features

    forward = forward_features


class Backbone(nn.Module):
    """Normalised pixels (N, 3, S, S) to features (N, C, H, W); tokens become (N, C, T, 1)."""

    def __init__(
        self, model: nn.Module, *, name: str, default_preprocessing: Preprocessing
    ) -> None:
        super().__init__()
        self.model = model
        self.name = name
        self.channels = int(cast("Any", model).num_features)
        self.default_preprocessing = default_preprocessing  # what the weights were trained with
        self._channels_are_last = getattr(model, "output_fmt", "NCHW") == "NHWC"
        self._other_tokens = int(getattr(model, "num_prefix_tokens", 0))  # class tokens and such

    def forward(self, pixels: Tensor) -> Tensor:
        features = cast("Any", self.model).forward_features(pixels)
        if isinstance(features, Tensor):
            if features.ndim == 3:
                features = features[:, self._other_tokens :].transpose(1, 2).unsqueeze(-1)
            elif self._channels_are_last:
                features = features.permute(0, 3, 1, 2)
            if features.ndim == 4 and features.shape[1] == self.channels:
                return features
        raise InvalidArgument(
            "backbone",
            expected=f"a model that gives one map of {self.channels} features per image",
            got=f"{self.name}, which gives something else",
            fix="choose a convolutional network or a plain vision transformer",
        )


def build_backbone(
    name: str,
    *,
    pretrained: bool,
    weights: Path | None = None,
    drop_rate: float = 0.0,
    size: int | None = None,
) -> Backbone:
    """The backbone of that name, from a closed table: `known_backbones`.

    Weights come from `weights` (a local safetensors file) or, with `pretrained`, from timm's
    download. `size` matters only to models with a fixed input size. Only models with dropout
    between their layers, such as DenseNets and transformers, take a `drop_rate`.
    """
    check_backbone(name)
    if name in OWN and pretrained and weights is None:
        raise InvalidArgument(
            "pretrained",
            expected=f"pretrained = false for {name!r}, of which no weights are published",
            got="true",
            fix='give local weights: weights = "FILE.safetensors", or train from scratch',
        )
    if name == "tiny":
        _refuse_dropout(name, drop_rate)
        model: Any = TinyConvNet()
    elif name == "resnet50_v1":
        model = _stride_first(_timm_model("resnet50", drop_rate=drop_rate))
    else:
        download = pretrained and weights is None
        model = _timm_model(name, pretrained=download, drop_rate=drop_rate, size=size)
    if weights is not None:
        load_weights(model, Path(weights), ignore=_not_needed_by(model))
    return Backbone(model, name=name, default_preprocessing=default_preprocessing(name))


def backbone_channels(name: str) -> int:
    """How many features per position a backbone gives, without making its weights."""
    with torch.device("meta"):
        return build_backbone(name, pretrained=False).channels


def default_preprocessing(name: str) -> Preprocessing:
    """How the pictures were prepared that a backbone's published weights were trained with."""
    check_backbone(name)
    if name in OWN:
        return OWN[name]
    published = _timm().get_pretrained_cfg(name)
    if published is None:
        return Preprocessing()
    return Preprocessing(
        size=published.input_size[-1],
        resize=_RESIZES.get(published.crop_mode, "crop"),
        crop_share=min(published.crop_pct, 1.0),
        interpolation=(
            published.interpolation if published.interpolation in INTERPOLATIONS else "bicubic"
        ),
        mean=published.mean,
        std=published.std,
    )


def known_backbones() -> list[str]:
    """Every name that `build_backbone` takes; timm's also with the tag of certain weights."""
    return [*OWN, *_timm_names()]


def check_backbone(name: str) -> None:
    """Refuse a name that is not in the table; nothing is imported because a file says so."""
    if name == "tiny" or name in known_backbones():
        return
    near = get_close_matches(str(name), known_backbones(), n=5, cutoff=0.5)
    near = near or ["tiny", "mobilenetv2_100", "resnet50", "densenet161", "vit_small_patch16_224"]
    raise InvalidArgument(
        "backbone",
        expected=f"a known name, such as {', '.join(near)}",
        got=repr(name),
        fix="surefind.encoders.known_backbones() lists all of them",
    )


def _timm() -> ModuleType:
    import_torchvision()
    import timm

    return timm


@cache
def _timm_names() -> tuple[str, ...]:
    return (*_timm().list_models(), *_timm().list_pretrained())


def _timm_model(
    name: str, *, pretrained: bool = False, drop_rate: float = 0.0, size: int | None = None
) -> Any:
    options: dict[str, Any] = {"num_classes": 0, "drop_rate": drop_rate}
    known = _timm().get_pretrained_cfg(name)
    if size is not None and known is not None and known.fixed_input_size:
        options["img_size"] = size
    if not pretrained:
        return _create(name, **options)
    try:
        with _offline_if_unreachable():
            return _create(name, pretrained=True, **options)
    except Exception as error:  # the hub raises many kinds, which all mean the same here
        raise SurefindError(
            f"cannot get pretrained weights of {name!r}: {error!r}",
            fix='give a local file, weights = "FILE.safetensors", or train from scratch with '
            "pretrained = false",
        ) from error


def _create(name: str, *, drop_rate: float, **options: Any) -> Any:
    """A timm model, with dropout between its layers."""
    create = _timm().create_model
    if drop_rate == 0:
        return create(name, **options)
    try:
        return create(name, proj_drop_rate=drop_rate, **options)
    except TypeError:  # it does not know the option
        _refuse_dropout(name, drop_rate)


def _refuse_dropout(name: str, drop_rate: float) -> None:
    if drop_rate > 0:
        raise InvalidArgument(
            "dropout",
            expected=f"0, as {name} has no dropout between its layers",
            got=repr(drop_rate),
            fix="use a backbone that has, such as densenet161, or head_dropout",
        )


@contextmanager
def _offline_if_unreachable() -> Iterator[None]:
    """Ask once whether the hub answers; if not, only its cache is used, without retries."""
    from huggingface_hub import constants, get_session

    before = constants.HF_HUB_OFFLINE
    if not before:
        try:
            get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
        except Exception as error:  # noqa: BLE001 - of whatever HTTP library it uses
            logging.getLogger("surefind").info("%s: %s", constants.ENDPOINT, error)
            constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _stride_first(model: Any) -> Any:
    """ResNet as first published: the first convolution of a stage has the stride, not the second.

    timm's is version 1.5; the tensors have the same names and shapes.
    """
    for stage in (model.layer2, model.layer3, model.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    return model


def _not_needed_by(model: nn.Module) -> Callable[[str], bool]:
    """Tells the names of a classifier's tensors, and of counters of training steps."""
    published = getattr(model, "pretrained_cfg", {}).get("classifier") or ()
    classifiers = (published,) if isinstance(published, str) else published
    starts = tuple(f"{name}." for name in classifiers)
    return lambda name: name.startswith(starts) or name.endswith("num_batches_tracked")
