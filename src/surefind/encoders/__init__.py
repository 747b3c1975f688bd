"""Encoders: a backbone and heads that embed an image as a distribution."""

from surefind.encoders.backbone import Backbone, build_backbone, known_backbones
from surefind.encoders.config import EncoderConfig
from surefind.encoders.encoder import Encoder, McDropoutEncoder
from surefind.encoders.image_encoder import EncodedImages, ImageEncoder
from surefind.encoders.open import from_callable, open_encoder

__all__ = [
    "Backbone", "EncodedImages", "Encoder", "EncoderConfig", "ImageEncoder", "McDropoutEncoder", "build_backbone",
    "from_callable", "known_backbones", "open_encoder",
]  # fmt: skip
