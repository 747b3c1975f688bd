"""Embeddings with what is known of their images, in a file that other programs read."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from surefind.embeddings import Embeddings, VonMisesFisher
from surefind.encoders.encoding import ImageEncoder
from surefind.files import write_whole
from surefind.images.catalog import Catalog


def write_embeddings(
    path: Path, embeddings: Embeddings, catalog: Catalog, encoder: ImageEncoder
) -> None:
    """One row per image of the catalog; an older file is replaced whole or not at all."""
    if path.suffix.lower() == ".npz":
        write_whole(path, _npz(embeddings, catalog, encoder))
    else:
        embeddings.save(path, about=_about(catalog, encoder))


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


def _about(catalog: Catalog, encoder: ImageEncoder) -> dict[str, str]:
    """Lists are JSON, since a safetensors file has room for text only."""
    told = {"fingerprint": encoder.fingerprint, "ids": json.dumps(catalog.ids)}
    if catalog.labels:
        told["labels"] = json.dumps(catalog.labels)
    return told
