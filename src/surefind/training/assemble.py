"""The network, the images and the classes that a recipe asks for."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from surefind.encoders.backbone import backbone_channels, default_preprocessing
from surefind.encoders.config import EncoderConfig
from surefind.encoders.encoder import Encoder
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog
from surefind.training.augment import Augmentation
from surefind.training.plan import Rows, Stream, rng
from surefind.training.recipe import Recipe
from surefind.training.views import TrainingImages

PCA_IMAGES = 4000  # that the mean head is started from, at most
LENGTH_IMAGES = 256  # that tell how long means are at the start


def make_encoder(recipe: Recipe) -> Encoder:
    part = recipe.encoder
    dim = part.dim or backbone_channels(part.backbone)
    config = EncoderConfig(
        backbone=part.backbone,
        dim=dim,
        family=part.family,
        dropout=part.dropout,
        head_dropout=part.head_dropout,
        unit_pooling=part.unit_pooling,
        unit_means=part.unit_means,
        mean_scale=part.mean_scale,
        variance_layer_norm=part.variance_layer_norm,
        initial_var=part.initial_spread / dim,
        preprocessing=replace(
            default_preprocessing(part.backbone), size=part.size, resize=part.resize
        ),
    )
    named = part.weights in ("pretrained", "none")
    return Encoder.create(
        config,
        pretrained=part.weights == "pretrained",
        weights=None if named else Path(part.weights),
        seed=recipe.seed,
    )


def make_images(recipe: Recipe, catalog: Catalog, encoder: Encoder) -> TrainingImages:
    part = recipe.augment
    augmentation = Augmentation(
        rotation=part.rotation, scale=part.scale, jitter=part.jitter, hue=part.hue, flip=part.flip
    )
    return TrainingImages(
        catalog,
        encoder.preprocessing,
        size=part.size or recipe.encoder.size,
        augmentation=augmentation if part.use else None,
        seed=recipe.seed,
        threads=1 if recipe.data.workers else max(1, torch.get_num_threads()),
    )


def divide_classes(recipe: Recipe, catalog: Catalog) -> tuple[Rows, Rows]:
    """Rows that the first phase trains on, and rows that the phase of the variance trains on."""
    everything = np.arange(len(catalog))
    if not (recipe.variance.steps and recipe.variance.held_out):
        return everything, everything
    if not catalog.labels:
        raise InvalidArgument(
            "variance.held_out",
            expected="images with labels",
            got="images with positions",
            fix="set variance.held_out = 0",
        )
    classes = rng(recipe.seed, Stream.CLASSES, 0).permutation(len(catalog.classes))
    count = max(2, round(recipe.variance.held_out * len(classes)))
    held_out = np.isin(catalog.codes, classes[:count])
    return everything[~held_out], everything[held_out]


def start_from_images(recipe: Recipe, encoder: Encoder, images: TrainingImages, rows: Rows) -> None:
    """Start the mean head where the recipe says, and free means at the length of the prior."""
    pca, free = recipe.encoder.start == "pca", not recipe.encoder.unit_means
    if not (pca or (free and encoder.log_scale is not None)):
        return
    most = PCA_IMAGES if pca else LENGTH_IMAGES
    random = rng(images.seed, Stream.CLASSES, 1)
    some = np.sort(random.choice(rows, min(most, len(rows)), replace=False))
    encoder.eval()
    with torch.inference_mode():
        pooled = [
            encoder.mean_head.pool(encoder.features(encoder.prepare(pixels)))
            for _, pixels in images.plain(some)
        ]
        together = torch.cat(pooled)
    together = together.clone()
    if pca:
        encoder.start_from_pca(together)
    encoder.start_at_length_one(together)
