"""A name for what an encoder computes: equal weights and preprocessing, equal fingerprint."""

import hashlib
import json
from collections.abc import Mapping

import torch
from torch import Tensor

from surefind.encoders.config import EncoderConfig


def fingerprint(config: EncoderConfig, tensors: Mapping[str, Tensor]) -> str:
    """sha256 over the configuration and every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(canonical(config.as_dict()))
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(canonical([name, str(tensor.dtype), list(tensor.shape)]))
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def canonical(value: object) -> bytes:
    """JSON with one spelling, ended so that nothing can run into what follows."""
    return json.dumps(value, sort_keys=True).encode() + b"\n"
