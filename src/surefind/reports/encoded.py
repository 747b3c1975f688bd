"""Embeddings of a catalog, kept beside a report: encoding is what takes long."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from surefind.embeddings import Embeddings
from surefind.encoders.encoding import ImageEncoder
from surefind.errors import SurefindError
from surefind.images.catalog import Catalog
from surefind.reports.result import Exclusion

EXAMPLES = 5  # of excluded images


class Embedded(NamedTuple):
    """The images of a catalog that could be read, row by row, and why others could not."""

    embeddings: Embeddings
    catalog: Catalog
    exclusions: tuple[Exclusion, ...] = ()


def embed_catalog(
    encoder: ImageEncoder,
    catalog: Catalog,
    *,
    kept_in: Path | None = None,
    max_bad_share: float = 0.05,
    progress: Callable[[int], None] | None = None,
) -> Embedded:
    """Encode a catalog, or read what an earlier run kept in the folder `kept_in`."""
    if not len(catalog):
        raise SurefindError(f"{catalog.root}: no images", fix="choose another part of the data")
    kept = None if kept_in is None else kept_in / f"{_key(encoder, catalog)}.safetensors"
    if kept is not None and kept.is_file() and kept.with_suffix(".json").is_file():
        embeddings = Embeddings.load(kept)
        rejected = json.loads(kept.with_suffix(".json").read_text())
    else:
        found = encoder.encode_all(catalog.files, max_bad_share=max_bad_share, progress=progress)
        embeddings, rejected = found.embeddings, [(r.row, r.reason) for r in found.rejected]
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.with_suffix(".json").write_text(json.dumps(rejected))
            embeddings.save(kept)
    if progress is not None:
        progress(len(catalog))
    return Embedded(embeddings, *_without(catalog, rejected))


def _without(
    catalog: Catalog, rejected: list[tuple[int, str]]
) -> tuple[Catalog, tuple[Exclusion, ...]]:
    bad = {row for row, _ in rejected}
    reasons: dict[str, list[str]] = {}
    for row, reason in rejected:
        reasons.setdefault(f"cannot be read: {reason}", []).append(catalog.paths[row])
    exclusions = tuple(
        Exclusion(reason, len(paths), tuple(paths[:EXAMPLES])) for reason, paths in reasons.items()
    )
    readable = np.array([row for row in range(len(catalog)) if row not in bad], dtype=np.int64)
    return (catalog.select(readable) if bad else catalog), exclusions


def _key(encoder: ImageEncoder, catalog: Catalog) -> str:
    """Of the model and of the files as they are now."""
    digest = hashlib.sha256(encoder.fingerprint.encode())
    for file in catalog.files:
        state = file.stat() if file.exists() else None
        digest.update(f"\0{file}\0{state and (state.st_size, state.st_mtime_ns)}".encode())
    return digest.hexdigest()[:32]
