"""Backbones: timm models, or small networks of surefind, with weights from safetensors."""

import copy
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_weights

from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.images.preprocess import INTERPOLATIONS, Preprocessing

OWN: dict[str, dict[str, Any]] = {  # preprocessing of backbones that are not timm's
    "tiny": {"size": 32, "interpolation": "bilinear", "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)},
    "resnet50_v1": {"resize": "crop", "crop_share": 0.875, "interpolation": "bilinear"},
}
_GIVE_WEIGHTS = 'add --weights FILE (of surefind train, --set encoder.weights=FILE; in Python, weights="FILE")'
_MISSING_OPERATOR = re.compile(r"operator torchvision::(\w+) does not exist")
_declared: list[torch.library.Library] = []  # keeps the declarations alive
_RESIZES = {"center": "crop", "squash": "squash", "border": "pad"}  # timm's names for them


class TinyConvNet(nn.Module):
    """Four 3x3 convolutions, three of stride 2: 32 px become a 4 x 4 map.

    Quick to train from scratch on a CPU. Group norm: features do not depend on the batch.
    """

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        self.num_features = channels
        widths = (3, channels // 4, channels // 2, channels, channels)
        layers: list[nn.Module] = []
        for inputs, outputs, stride in zip(widths, widths[1:], (2, 2, 2, 1), strict=False):
            convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
            stage = (convolution, nn.GroupNorm(8, outputs), nn.ReLU(inplace=True))
            layers.append(nn.Sequential(*stage))
        self.stages = nn.Sequential(*layers)

    def forward_features(self, pixels: Tensor) -> Tensor:
        features: Tensor = self.stages(pixels)
        return features

    forward = forward_features


class Backbone(nn.Module):
    """Feature extractor: pixels (N, 3, S, S) to features (N, C, H, W), or (N, C, T, 1) of tokens.

    `model` has `forward_features` and `num_features`, as timm's have; `forward` raises
    InvalidArgument if it has no such feature map.
    """

    def __init__(self, model: nn.Module, *, name: str) -> None:
        super().__init__()
        self.model = model
        self.name = name
        self.channels = int(cast("Any", model).num_features)
        self._channels_are_last = getattr(model, "output_fmt", "NCHW") == "NHWC"
        self._other_tokens = int(getattr(model, "num_prefix_tokens", 0))  # class tokens
        self.folds = False  # True once `fold_batch_norm` was found to be right

    @property
    def default_preprocessing(self) -> Preprocessing:
        return default_preprocessing(self.name)

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
            expected=f"a model with one map of {self.channels} features per image",
            got=self.name,
            fix="choose a convolutional network or a plain vision transformer",
        )


@torch.inference_mode()
def fold_batch_norm(backbone: Backbone, size: int) -> Backbone:
    """Return a copy, in evaluation mode, with batch norm folded into the convolutions before it.

    Children are folded in the order in which they are defined; other weights are shared. An image checks,
    once, that this is the order in which they are called; otherwise the backbone itself is returned.
    """
    if not any(isinstance(part, _BatchNorm) for part in backbone.modules()):
        return backbone
    folded = copy.deepcopy(backbone, {id(its): its for its in (*backbone.parameters(), *backbone.buffers())})
    for part in folded.modules():
        for (_, conv), (after, norm) in pairwise(list(part.named_children())):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, _BatchNorm) and norm.num_features == conv.out_channels:
                its: tuple[Any, ...] = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
                weight, conv.bias = fuse_conv_bn_weights(conv.weight, conv.bias, *its)
                conv.weight = nn.Parameter(weight.contiguous(memory_format=torch.channels_last))
                rest = [getattr(norm, name) for name in ("drop", "act") if hasattr(norm, name)]  # of timm's norms
                setattr(part, after, nn.Sequential(*rest))
    if not backbone.folds:
        device = next(backbone.parameters()).device
        image = torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(0)).to(device)
        expected, found = backbone(image), folded(image)
        backbone.folds = bool((found - expected).abs().max() <= 1e-4 * expected.abs().max())
    return folded if backbone.folds else backbone


def build_backbone(
    name: str, *, pretrained: bool, weights: Path | None = None, drop_rate: float = 0.0, size: int | None = None
) -> Backbone:
    """Build a backbone without classifier, with random weights unless some are given.

    Args:
        name: one of `known_backbones`.
        pretrained: download timm's weights, unless `weights` is given.
        weights: local safetensors file.
        drop_rate: dropout between the layers, of models that have it (DenseNets, transformers).
        size: input size, for models that have a fixed one.

    Raises:
        InvalidArgument: if the name is unknown, or the model has no pretrained weights or dropout.
        InvalidFile: if the weights do not fit the model.
        SurefindError: if the weights cannot be downloaded.
    """
    check_backbone(name)
    if name in OWN and pretrained and weights is None:
        raise InvalidArgument(
            "weights", expected=f"a file for {name!r}, of which no weights are published", got="none", fix=_GIVE_WEIGHTS
        )
    if name == "tiny":
        _refuse_dropout(name, drop_rate)
        model: Any = TinyConvNet()
    elif name == "resnet50_v1":
        # As first published: the stride is in the first convolution of a stage; in timm's version
        # 1.5 it is in the second. Names and shapes of the tensors are the same.
        model = _timm_model("resnet50", drop_rate=drop_rate)
        for stage in (model.layer2, model.layer3, model.layer4):
            stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    else:
        download = pretrained and weights is None
        model = _timm_model(name, pretrained=download, drop_rate=drop_rate, size=size)
    if weights is not None:
        classifier = getattr(model, "pretrained_cfg", {}).get("classifier") or ()
        named = [classifier] if isinstance(classifier, str) else classifier
        unused = tuple(f"{part}." for part in named)
        load_weights(
            model, Path(weights), ignore=lambda name: name.startswith(unused) or name.endswith("num_batches_tracked")
        )
    return Backbone(model, name=name)


def backbone_channels(name: str) -> int:
    """Return the number of channels of a backbone, without allocating its weights."""
    with torch.device("meta"):
        return build_backbone(name, pretrained=False).channels


def default_preprocessing(name: str) -> Preprocessing:
    """Return the preprocessing that a backbone's published weights were trained with."""
    check_backbone(name)
    if name in OWN:
        return Preprocessing(**OWN[name])
    published = _timm().get_pretrained_cfg(name)
    if published is None:
        return Preprocessing()
    return Preprocessing(
        size=published.input_size[-1],
        resize=_RESIZES.get(published.crop_mode, "crop"),
        crop_share=min(published.crop_pct, 1.0),
        interpolation=(published.interpolation if published.interpolation in INTERPOLATIONS else "bicubic"),
        mean=published.mean,
        std=published.std,
    )


@cache
def known_backbones() -> tuple[str, ...]:
    """Return every name that `build_backbone` takes, timm's also with tags of weights."""
    return (*OWN, *_timm().list_models(), *_timm().list_pretrained())


def check_backbone(name: str) -> None:
    """Raise InvalidArgument for a name that is not in the table."""
    if name == "tiny" or name in known_backbones():
        return
    near = get_close_matches(str(name), known_backbones(), n=5, cutoff=0.5)
    near = near or ["tiny", "mobilenetv2_100", "resnet50", "densenet161", "vit_small_patch16_224"]
    raise InvalidArgument(
        "backbone",
        expected=f"a known name, such as {', '.join(near)}",
        got=repr(name),
        fix="surefind.encoders.known_backbones() lists all",
    )


def _timm() -> ModuleType:
    import_torchvision()
    import timm

    return timm


def _timm_model(name: str, *, pretrained: bool = False, drop_rate: float = 0.0, size: int | None = None) -> Any:
    options: dict[str, Any] = {"num_classes": 0}
    if drop_rate > 0:
        options |= {"drop_rate": drop_rate, "proj_drop_rate": drop_rate}
    known = _timm().get_pretrained_cfg(name)
    if size is not None and known is not None and known.fixed_input_size:
        options["img_size"] = size
    create = _timm().create_model
    try:
        if not pretrained:
            return create(name, **options)
        with _offline_if_unreachable():
            return create(name, pretrained=True, **options)
    except Exception as error:  # of several libraries
        if isinstance(error, TypeError) and "proj_drop_rate" in str(error):
            _refuse_dropout(name, drop_rate)
        if not pretrained:
            raise
        hub_id = known.hf_hub_id if known and known.hf_hub_id else "OWNER/NAME"
        raise SurefindError(
            f"cannot download the weights of {name!r}: {str(error).splitlines()[0]}",
            fix=f"where there is a network, `hf download {hub_id} model.safetensors`; then " + _GIVE_WEIGHTS,
        ) from error


def _refuse_dropout(name: str, drop_rate: float) -> None:
    if drop_rate > 0:
        raise InvalidArgument(
            "dropout",
            expected=f"0, as {name} has no dropout between its layers",
            got=repr(drop_rate),
            fix="use head_dropout, or a backbone such as densenet161",
        )


@contextmanager
def _offline_if_unreachable() -> Iterator[None]:
    """Use only the cache, without retries, if the hub does not answer a first request."""
    from huggingface_hub import constants, get_session

    before = constants.HF_HUB_OFFLINE
    if not before:
        try:
            get_session().head(constants.ENDPOINT, timeout=5)  # its own retries take a minute
        except Exception as error:  # noqa: BLE001 - of any HTTP library
            logging.getLogger("surefind").info("%s: %s", constants.ENDPOINT, error)
            constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def load_weights(module: nn.Module, path: Path, *, ignore: Callable[[str], bool] = lambda _: False) -> None:
    """Copy a file's tensors into a module with the same names and shapes, and cast their type."""
    wanted = module.state_dict()
    found = read_tensors(path, wanted, ignore=ignore)
    with torch.no_grad():
        for name, tensor in found.items():
            wanted[name].copy_(tensor)


def read_tensors(
    path: Path, wanted: Mapping[str, Tensor], *, ignore: Callable[[str], bool] = lambda _: False
) -> dict[str, Tensor]:
    """Read the tensors of a file; raise InvalidFile if names or shapes are not those wanted."""
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {
                name: tuple(file.get_slice(name).get_shape())
                for name in file.keys()  # noqa: SIM118
                if not ignore(name)
            }
            needed = {name: tuple(t.shape) for name, t in wanted.items() if not ignore(name)}
            kinds = {
                "missing": [name for name in needed if name not in shapes],
                "unknown": [name for name in shapes if name not in needed],
                "of another shape": [
                    f"{name}: {shape}, expected {needed[name]}"
                    for name, shape in shapes.items()
                    if needed.get(name, shape) != shape
                ],
            }
            odd = [f"{len(some)} {kind} (such as {some[0]})" for kind, some in kinds.items() if some]
            if odd:
                raise InvalidFile(
                    f"{path} has weights of another architecture: of {len(needed)} tensors " + ", ".join(odd),
                    fix="use the backbone of these weights, with timm's tensor names",
                )
            tensors = {name: file.get_tensor(name) for name in shapes}
    except (FileNotFoundError, IsADirectoryError) as error:
        raise InvalidFile(f"{path} does not exist or is not a file") from error
    except (OSError, SafetensorError) as error:
        raise InvalidFile(
            f"{path} is not a readable safetensors file: {error}",
            fix="pickle files (.pt, .pth, .bin) can run code and are not read: convert one that "
            "you trust with safetensors.torch.save_file(state_dict, path)",
        ) from error
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise InvalidFile(f"{path} has values that are not finite, in {name}")
    return tensors


def import_torchvision() -> ModuleType:
    """Import torchvision; declare its compiled operators if they are missing.

    With a CPU torch and a torchvision built for CUDA, the import fails with "operator
    torchvision::nms does not exist". Its Python parts work once the operators are declared.
    """
    for _ in range(32):
        try:
            return import_module("torchvision")
        except RuntimeError as error:
            missing = _MISSING_OPERATOR.search(str(error))
            if missing is None:
                raise
            library = torch.library.Library("torchvision", "FRAGMENT")
            library.define(f"{missing[1]}() -> ()")
            _declared.append(library)
            # Loaded submodules refer to the failed package: import all of them again.
            for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
                del sys.modules[name]
            logging.getLogger("surefind").info(
                "torchvision was built for another torch: its operator %r is not available", missing[1]
            )
    return import_module("torchvision")
