"""Embeddings of a catalog, kept beside a report: encoding is what takes long."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from surefind.embeddings import Embeddings
from surefind.encoders.image_encoder import ImageEncoder
from surefind.errors import SurefindError
from surefind.files import make_writable, write_whole
from surefind.images.catalog import Catalog
from surefind.reports.result import Exclusion
from surefind.search.copies import file_digests, first_copies

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
        raise SurefindError(f"{catalog.root}: no images")
    kept = None if kept_in is None else kept_in / f"{_key(encoder, catalog)}.safetensors"
    embeddings: Embeddings | None = None
    rejected: list[tuple[int, str]] = []
    if kept is not None:
        with suppress(SurefindError, OSError, ValueError):  # not there, or not readable any more
            rejected = json.loads(kept.with_suffix(".json").read_text())
            embeddings = Embeddings.load(kept)
    if embeddings is None:
        found = encoder.encode_all(catalog.files, max_bad_share=max_bad_share, progress=progress)
        embeddings, rejected = found.embeddings, [(r.row, r.reason) for r in found.rejected]
        if kept is not None:
            make_writable(kept.parent)
            write_whole(kept.with_suffix(".json"), json.dumps(rejected).encode())
            embeddings.save(kept)
    if progress is not None:
        progress(len(catalog))
    reasons: dict[str, list[str]] = {}
    for row, reason in rejected:
        reasons.setdefault(f"cannot be read: {reason}", []).append(catalog.paths[row])
    exclusions = (
        Exclusion(reason, len(paths), tuple(paths[:EXAMPLES])) for reason, paths in reasons.items()
    )
    readable = np.setdiff1d(np.arange(len(catalog)), [row for row, _ in rejected])
    readable_catalog = catalog.select(readable) if rejected else catalog
    return Embedded(embeddings, readable_catalog, tuple(exclusions))


def each_once(given: Embedded) -> Embedded:
    """Without images that are copies of another, by content or by vector; they are counted.

    A copy is found whatever the model has learned. Of a query and its copies, the query stays.
    """
    catalog, embeddings = given.catalog, given.embeddings
    order = np.argsort([not asks for asks in catalog.queries] or [0] * len(catalog), kind="stable")
    digests = file_digests([catalog.file(row) for row in order])
    means = embeddings.mean[order].detach().cpu().numpy()
    labels = [catalog.labels[row] for row in order] if catalog.labels else ()
    first = order[first_copies(means, digests, labels=labels)]
    copies = np.sort(order[first != order])
    if not len(copies):
        return given
    once = np.setdiff1d(order, copies)
    examples = tuple(catalog.paths[row] for row in copies[:EXAMPLES])
    left_out = Exclusion("copy of another image", len(copies), examples)
    return Embedded(embeddings[once.tolist()], catalog.select(once), (*given.exclusions, left_out))


def _key(encoder: ImageEncoder, catalog: Catalog) -> str:
    """Of the model, of what runs it, and of the files as they are now."""
    digest = hashlib.sha256(encoder.fingerprint.encode())
    if encoder.runtime != "torch":  # whose embeddings have no mark of their own
        digest.update(f"\0{encoder.runtime}".encode())
    for file in catalog.files:
        state = file.stat() if file.exists() else None
        digest.update(f"\0{file}\0{state and (state.st_size, state.st_mtime_ns)}".encode())
    return digest.hexdigest()[:32]
