"""Encoder: backbone, mean head and variance head; or the variance of passes with dropout."""

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from surefind.embeddings import POINT_VAR, SMALLEST_SPREAD, Embeddings, Gaussians
from surefind.encoders import serialization
from surefind.encoders.backbone import Backbone, backbone_channels, build_backbone, fold_batch_norm
from surefind.encoders.config import EncoderConfig
from surefind.encoders.heads import MeanHead, VarianceHead, log_map
from surefind.encoders.image_encoder import ImageEncoder, evaluating
from surefind.errors import InvalidArgument, InvalidFile
from surefind.validation import check_whole


class Encoder(ImageEncoder, nn.Module):
    """Embed images as `Gaussians` or `VonMisesFisher`; made by `pretrained`, `create` or `load`.

    Args:
        config: heads and preprocessing.
        backbone: feature extractor, with its weights.
    """

    card = ""  # model card, if it was loaded
    base_model = ""  # hub id of the backbone's weights, if they were downloaded

    def __init__(self, config: EncoderConfig, backbone: Backbone) -> None:
        super().__init__()
        self.preprocessing = config.preprocessing or backbone.default_preprocessing
        self.config = config if config.preprocessing else replace(config, preprocessing=self.preprocessing)
        self.backbone = backbone
        if not config.projection and config.dim != backbone.channels:
            expected = f"{backbone.channels}, the channels of {backbone.name}, without projection"
            raise InvalidArgument("dim", expected=expected, got=str(config.dim))
        self.mean_head = MeanHead(
            backbone.channels,
            config.dim if config.projection else None,
            dropout=config.head_dropout,
            unit_pooling=config.unit_pooling,
        )
        self.variance_head: VarianceHead | None = None
        if config.has_variance:
            self.variance_head = VarianceHead(
                backbone.channels,
                hidden=config.variance_hidden,
                floor=config.variance_floor,
                initial=config.starting_var,
                dropout=config.head_dropout,
                layer_norm=config.variance_layer_norm,
            )
        self.log_scale: nn.Parameter | None = None
        if config.family == "gaussian" and config.mean_scale:
            self.log_scale = nn.Parameter(torch.zeros(()))

    @classmethod
    def pretrained(cls, backbone: str, *, weights: str | Path | None = None) -> Self:
        """Make an encoder of a published backbone, without training, in evaluation mode.

        Features are pooled by GeM (p = 3) and have length 1. Images are prepared as timm's
        configuration of the weights says. There is no variance head: `var` is `POINT_VAR`, 1e-8.

        Args:
            backbone: timm name, such as "mobilenetv2_100", with or without a tag of weights.
            weights: local safetensors file with timm's tensor names; by default timm's weights
                are downloaded once.

        Raises:
            SurefindError: as `build_backbone`.
        """
        dim = backbone_channels(backbone)
        config = EncoderConfig(backbone, dim=dim, family="point", projection=False)
        return cls.create(config, pretrained=True, weights=weights).eval()

    @classmethod
    def create(
        cls, config: EncoderConfig, *, pretrained: bool = False, weights: str | Path | None = None, seed: int = 0
    ) -> Self:
        """Create a new encoder in training mode; the global random state is not changed.

        Args:
            config: backbone, heads and preprocessing (by default the backbone's own).
            pretrained: start from timm's weights, which are downloaded.
            weights: start from a local safetensors file.
            seed: of random weights.

        Raises:
            SurefindError: as `build_backbone`.
        """
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            backbone = build_backbone(
                config.backbone,
                pretrained=pretrained,
                weights=None if weights is None else Path(weights),
                drop_rate=config.dropout,
                size=config.preprocessing.size if config.preprocessing else None,
            )
            encoder = cls(config, backbone)
        if pretrained and weights is None:
            encoder.base_model = (getattr(backbone.model, "pretrained_cfg", None) or {}).get("hf_hub_id") or ""
        return encoder

    @classmethod
    def load(cls, model: str | Path) -> Self:
        """Load an encoder from a folder or the Hugging Face hub, in evaluation mode.

        Args:
            model: folder; or, if it does not exist, `owner/name[@revision]` on the hub.

        Raises:
            InvalidFile: if there is no such model, or it is damaged.
        """
        folder = Path(model)
        if not folder.is_dir():
            from surefind.encoders.hub import model_folder

            folder = model_folder(model)
        try:
            saved = serialization.read_config(folder)
            encoder = cls.create(saved.config)
            encoder.load_state_dict(serialization.read_weights(folder, saved, encoder.state_dict()))
            encoder.trained_with = serialization.read_classes(folder)
        except InvalidFile as error:
            if folder == Path(model):
                raise
            raise InvalidFile(
                f"{model} from the hub is not a valid model of surefind: {error.problem}",
                fix=f"delete {folder.parents[1]} and try again",
            ) from error
        with suppress(OSError):
            encoder.card = (folder / serialization.CARD).read_text(encoding="utf-8", errors="replace")
        return encoder.eval()

    def save(self, folder: str | Path, *, card: Mapping[str, object] | str | None = None) -> None:
        """Save to a model folder; an older model in it is replaced atomically.

        Args:
            folder: created if needed.
            card: facts about the training, for the model card. By default, an encoder that was
                loaded and not changed keeps its card.

        Raises:
            InvalidFile: if the folder cannot be written.
        """
        text, made = self.card, self.fingerprint
        if card is not None or made not in text:
            from surefind.encoders.hub import model_card

            text = model_card(
                self.config, made, training=card, base_model=self.base_model, classes=len(self.trained_with)
            )
        serialization.write_model(Path(folder), self.config, self.state_dict(), card=text)
        serialization.write_classes(Path(folder), self.trained_with)

    def push_to_hub(self, name: str, *, private: bool = False, card: Mapping[str, object] | str | None = None) -> str:
        """Upload to the Hugging Face hub in one commit.

        Args:
            name: `owner/name`, or `owner/name@branch`; either is created if needed.
            private: create a private repository.
            card: as for `save`.

        Returns:
            The URL of the model.

        Raises:
            InvalidArgument: if the name is not valid.
            InvalidFile: if nobody is logged in, or the upload fails.
        """
        from surefind.encoders.hub import check_hub_id, pack, upload

        hub_id = check_hub_id(name)
        with TemporaryDirectory() as folder:
            self.save(folder, card=card)
            files, _ = pack(Path(folder), hub_id)
            return upload(hub_id, files, private=private, message="Upload an encoder of surefind")

    @property
    def fingerprint(self) -> str:
        return serialization.fingerprint(self.config, self.state_dict())

    @property
    def scale(self) -> Tensor | None:
        return None if self.log_scale is None else self.log_scale.exp()

    @property
    def device(self) -> torch.device:
        return self.mean_head.gem.raw_p.device

    def embed_pixels(self, pixels: Tensor) -> Embeddings:
        return self.embed(self.features(pixels))

    forward = embed_pixels

    def evaluating(self) -> AbstractContextManager[None]:
        return evaluating(self)

    def for_many(self) -> Self:
        """Return an encoder that shares the heads and has no batch norm: up to 1.3 times as fast."""
        other = copy.copy(self)
        other._modules = {**self._modules, "backbone": fold_batch_norm(self.backbone, self.preprocessing.size)}
        return other

    def features(self, pixels: Tensor) -> Tensor:
        """Feature map (N, C, H, W) of normalised pixels (N, 3, S, S)."""
        # Convolutions are faster with channels last.
        features: Tensor = self.backbone(pixels.contiguous(memory_format=torch.channels_last))
        return features

    def embed(self, features: Tensor) -> Embeddings:
        """Embed a feature map by the heads."""
        return self.config.distributions(*self.moments(features))

    def moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Means (N, D) and variances (N,) of a feature map; on the sphere, 1 / kappa."""
        logs = log_map(features)
        mean: Tensor = self.mean_head(logs).float()
        if self.config.unit_means or self.config.family != "gaussian":
            mean = functional.normalize(mean, dim=1)
        if self.variance_head is None:
            return mean, mean.new_full(mean.shape[:1], POINT_VAR)
        var = self.variance_head(logs).float()
        return (mean if self.scale is None else self.scale * mean), var

    @torch.no_grad()
    def start_at_length_one(self, pooled: Tensor) -> None:
        """Initialise the scale so that free means have length 1 on average, as the prior has.

        `pooled` as for `MeanHead.start_from_pca`.
        """
        if self.log_scale is not None and not self.config.unit_means:
            squared = self.mean_head.project(pooled).square().sum(dim=1).mean()
            self.log_scale.fill_(-0.5 * squared.log())


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
        check_whole("passes", passes, smallest=2)
        self.encoder, self.passes, self.seed = encoder, passes, seed
        self.config = encoder.config
        self.preprocessing, self.trained_with = encoder.preprocessing, encoder.trained_with
        self._dropping = {part for part in encoder.modules() if _drops(part)}
        if not self._dropping:
            raise InvalidArgument("encoder", expected="an encoder with dropout", got="none in its backbone or heads")

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
        return Gaussians(torch.empty(0, self.config.dim), torch.empty(0))

    def evaluating(self) -> AbstractContextManager[None]:
        return evaluating(self.encoder, but=self._dropping)


class _SharedDropout(TorchFunctionMode):
    """Dropout whose mask is drawn once for all rows of a batch."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator, self.used = generator, False

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is not functional.dropout:
            return func(*args, **(kwargs or {}))
        return self._dropout(*args, **(kwargs or {}))

    def _dropout(self, features: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
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
