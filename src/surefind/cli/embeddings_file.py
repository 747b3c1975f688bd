"""Embeddings with what is known of their images, in a file that other programs read."""

import json
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save as to_safetensors

from surefind.embeddings import Embeddings, VonMisesFisher
from surefind.encoders.encoding import ImageEncoder
from surefind.files import write_whole
from surefind.images.catalog import Catalog


def write_embeddings(
    path: Path, embeddings: Embeddings, catalog: Catalog, encoder: ImageEncoder
) -> None:
    """One row per image of the catalog; an older file is replaced whole or not at all."""
    as_file = _npz if path.suffix.lower() == ".npz" else _safetensors
    write_whole(path, as_file(embeddings, catalog, encoder))


def _npz(embeddings: Embeddings, catalog: Catalog, encoder: ImageEncoder) -> bytes:
    spread = embeddings.spread
    var = 1 / spread if isinstance(embeddings, VonMisesFisher) else spread
    arrays: dict[str, Any] = {
        "ids": np.array(catalog.ids),
        "vectors": embeddings.mean.numpy(),
        "family": np.array(embeddings.family),
        "fingerprint": np.array(encoder.fingerprint),
    }
    if encoder.has_variance:
        arrays["var"] = var.numpy()
    if catalog.labels:
        arrays["labels"] = np.array(catalog.labels)
    content = BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def _safetensors(embeddings: Embeddings, catalog: Catalog, encoder: ImageEncoder) -> bytes:
    """What `Embeddings.load` reads; the ids and labels are JSON lists in its metadata."""
    tensors = {f.name: getattr(embeddings, f.name).contiguous() for f in fields(embeddings)}
    told = {
        "family": embeddings.family,
        "fingerprint": encoder.fingerprint,
        "ids": json.dumps(catalog.ids),
    }
    if catalog.labels:
        told["labels"] = json.dumps(catalog.labels)
    return to_safetensors(tensors, told)
