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
    known = None if kept is None else _read(kept)
    if known is not None:
        embeddings, rejected = known
    else:
        found = encoder.encode_all(catalog.files, max_bad_share=max_bad_share, progress=progress)
        embeddings, rejected = found.embeddings, [(r.row, r.reason) for r in found.rejected]
        if kept is not None:
            make_writable(kept.parent)
            write_whole(kept.with_suffix(".json"), json.dumps(rejected).encode())
            embeddings.save(kept)
    if progress is not None:
        progress(len(catalog))
    return Embedded(embeddings, *_without(catalog, rejected))


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


def _read(kept: Path) -> tuple[Embeddings, list[tuple[int, str]]] | None:
    """What an earlier run kept; None where there is nothing, or it cannot be read any more."""
    try:
        return Embeddings.load(kept), json.loads(kept.with_suffix(".json").read_text())
    except (SurefindError, OSError, ValueError):
        return None


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
    """Of the model, of what runs it, and of the files as they are now."""
    digest = hashlib.sha256(encoder.fingerprint.encode())
    if encoder.runtime != "torch":  # whose embeddings have no mark of their own
        digest.update(f"\0{encoder.runtime}".encode())
    for file in catalog.files:
        state = file.stat() if file.exists() else None
        digest.update(f"\0{file}\0{state and (state.st_size, state.st_mtime_ns)}".encode())
    return digest.hexdigest()[:32]
