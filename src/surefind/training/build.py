"""Build encoder, images, loss and optimiser from a recipe."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from surefind.encoders.backbone import backbone_channels, default_preprocessing
from surefind.encoders.config import EncoderConfig
from surefind.encoders.encoder import Encoder
from surefind.encoders.heads import log_map
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog
from surefind.losses import BayesianTripletLoss, TripletCriterion, TripletLoss, TripletRegressionLoss
from surefind.training.data import TrainingImages
from surefind.training.recipe import LossPart, OptimiserPart, Recipe
from surefind.training.sampling import Rows, Stream, rng

PCA_IMAGES = 4000  # for the PCA that initialises the mean head, at most
LENGTH_IMAGES = 256  # for the length of means at the start, at most


def make_encoder(recipe: Recipe) -> Encoder:
    part = recipe.encoder
    dim = part.dim or backbone_channels(part.backbone) - (part.family != "point")
    own = {field.name for field in fields(EncoderConfig)}
    shared = {name: value for name, value in vars(part).items() if name in own}
    preprocessing = default_preprocessing(part.backbone)
    config = EncoderConfig(
        **shared | {"dim": dim},
        initial_var=part.initial_spread / dim,
        preprocessing=replace(preprocessing, size=part.size, resize=part.resize),
    )
    named = part.weights in ("pretrained", "none")
    return Encoder.create(
        config, pretrained=part.weights == "pretrained", weights=None if named else Path(part.weights), seed=recipe.seed
    )


def make_images(recipe: Recipe, catalog: Catalog, encoder: Encoder) -> TrainingImages:
    part = recipe.augment
    return TrainingImages(
        catalog,
        encoder.preprocessing,
        size=part.size or recipe.encoder.size,
        augmentation=part if part.use else None,
        seed=recipe.seed,
        threads=1 if recipe.data.workers else max(1, torch.get_num_threads()),
    )


def divide_classes(recipe: Recipe, catalog: Catalog) -> tuple[Rows, Rows]:
    """Return the rows of the main phase and those of the variance phase."""
    everything = np.arange(len(catalog))
    if not (recipe.variance.steps and recipe.variance.held_out):
        return everything, everything
    if not catalog.labels:
        raise InvalidArgument(
            "variance.held_out",
            expected="0, as images with positions have no classes",
            got=str(recipe.variance.held_out),
        )
    classes = rng(recipe.seed, Stream.CLASSES, 0).permutation(len(catalog.classes))
    count = max(2, round(recipe.variance.held_out * len(classes)))
    held_out = np.isin(catalog.codes, classes[:count])
    return everything[~held_out], everything[held_out]


def start_from_images(recipe: Recipe, encoder: Encoder, images: TrainingImages, rows: Rows) -> None:
    """Initialise the mean head by PCA, and the scale of free means, if the recipe says so."""
    pca, free = recipe.encoder.start == "pca", not recipe.encoder.unit_means
    if not (pca or (free and encoder.log_scale is not None)):
        return
    most = PCA_IMAGES if pca else LENGTH_IMAGES
    random = rng(images.seed, Stream.CLASSES, 1)
    some = np.sort(random.choice(rows, min(most, len(rows)), replace=False))
    encoder.eval()
    with torch.inference_mode():
        pixels = (encoder.prepare(pixels) for _, pixels in images.plain(some))
        maps = (log_map(encoder.features(batch)) for batch in pixels)
        parts = [encoder.mean_head.pool(logs) for logs in maps]
    together = torch.cat(parts).clone()  # tensors of inference mode take no gradient
    if pca:
        encoder.mean_head.start_from_pca(together)
    encoder.start_at_length_one(together)


def make_loss(part: LossPart) -> TripletCriterion:
    if part.name == "triplet":
        return TripletLoss(part.own_margin)
    if part.name == "triplet-regression":
        return TripletRegressionLoss(part.own_margin)
    return BayesianTripletLoss(
        part.own_margin,
        part.kl_scale,
        part.method,
        part.centred,
        floor=part.floor,
        prior_var=part.prior_var,
        sphere=part.sphere,
    )


def make_optimiser(encoder: Encoder, part: OptimiserPart) -> torch.optim.Adam:
    """Adam over what the recipe does not freeze; backbone and heads have their own rates."""
    encoder.requires_grad_(True)
    if part.freeze == "backbone":
        encoder.backbone.requires_grad_(False)
    parameters = dict(encoder.backbone.model.named_parameters())
    for start in part.freeze_first:
        named = [parameters[name] for name in parameters if name.startswith(start)]
        if not named:
            known = dict.fromkeys(name.split(".")[0] for name in parameters)
            raise InvalidArgument(
                "optimiser.freeze_first",
                expected=f"starts of parameter names of {encoder.config.backbone}",
                got=repr(start),
                fix="known: " + ", ".join(known),
            )
        for parameter in named:
            parameter.requires_grad_(False)
    variance = [] if encoder.variance_head is None else list(encoder.variance_head.parameters())
    backbone = list(encoder.backbone.parameters())
    apart = {id(parameter) for parameter in [*variance, *backbone]}
    groups = (
        ([p for p in encoder.parameters() if id(p) not in apart], part.lr),
        (backbone, part.lr if part.backbone_lr is None else part.backbone_lr),
        (variance, part.lr if part.variance_lr is None else part.variance_lr),
    )
    trained = [([p for p in some if p.requires_grad], lr) for some, lr in groups]
    return torch.optim.Adam(
        [{"params": some, "lr": lr, "initial_lr": lr} for some, lr in trained if some], weight_decay=part.weight_decay
    )


def make_variance_optimiser(encoder: Encoder, *, lr: float) -> torch.optim.Adam:
    """Adam over the variance head; everything else is frozen."""
    assert encoder.variance_head is not None
    encoder.requires_grad_(False)
    encoder.variance_head.requires_grad_(True)
    parameters = list(encoder.variance_head.parameters())
    return torch.optim.Adam([{"params": parameters, "lr": lr, "initial_lr": lr}], weight_decay=0.0)


def train_mode(encoder: Encoder, *, batch_norm: str) -> None:
    """Set training mode; with "frozen", batch norm keeps its running statistics."""
    encoder.train()
    if batch_norm == "frozen":
        for module in encoder.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
