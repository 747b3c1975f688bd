"""Encoders: a backbone and heads that embed an image as a distribution."""

from surefind.encoders.backbone import Backbone, build_backbone, known_backbones
from surefind.encoders.config import EncoderConfig
from surefind.encoders.encoder import Encoder, McDropoutEncoder
from surefind.encoders.image_encoder import EncodedImages

__all__ = [
    "Backbone",
    "EncodedImages",
    "Encoder",
    "EncoderConfig",
    "McDropoutEncoder",
    "build_backbone",
    "known_backbones",
]
