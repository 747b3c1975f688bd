"""Evaluation protocol (queries, gallery, matches) and cached embeddings of a catalog."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from surefind.confidence.copies import first_copies
from surefind.embeddings import Embeddings
from surefind.encoders.image_encoder import ImageEncoder
from surefind.errors import SurefindError
from surefind.images.catalog import Catalog
from surefind.images.digest import file_digests
from surefind.images.matches import ByPosition, Mask, Matches, Rows, matches_of
from surefind.reports.result import Exclusion
from surefind.storage import make_writable, write_whole


class Protocol(NamedTuple):
    """Rows of one catalog as queries and gallery; a query does not search itself."""

    queries: Rows
    gallery: Rows
    itself: Rows | None  # row of each query in the gallery; None: disjoint
    n_matches: Rows  # of each query, in the gallery
    matches: Matches
    description: str

    def hits(self, places: Rows, queries: Rows | None = None) -> Mask:
        """Return which of the found (Q, K) places in the gallery match their query."""
        queries = self.queries if queries is None else queries
        return self.matches.match_pairs(queries[:, None], self.gallery[places])


def protocol_of(catalog: Catalog, *, radius: float = 25.0) -> Protocol:
    """Return the queries that the catalog names, else every image as query against all others."""
    matches = matches_of(catalog, radius)
    rows = np.arange(len(catalog))
    if catalog.queries:
        is_query = np.array(catalog.queries)
        queries, gallery, itself = rows[is_query], rows[~is_query], None
        who = f"{len(queries):,} queries search {len(gallery):,} other images"
    else:
        queries = gallery = itself = rows
        who = f"each of {len(rows):,} images searches all the others"
    if not len(queries) or len(gallery) < 2:
        raise SurefindError(
            f"{catalog.root}: {len(queries)} queries and a gallery of {len(gallery)}",
            fix="evaluation needs at least one query and two images to search",
        )
    n_matches = matches.count(queries, gallery)
    by_position = isinstance(matches, ByPosition)
    if not n_matches.any():
        fix = "check the labels: no two images share one"
        if by_position:
            fix = "check the positions (degrees or metres?), or allow a larger --radius"
        elif catalog.queries:
            fix = "check the labels: queries and gallery have none in common"
        problem = f"none of the {len(queries)} queries has a match in the gallery"
        raise SurefindError(f"{catalog.root}: {problem}", fix=fix)
    what = f"taken within {radius:g} m of each other" if by_position else "of the same label"
    return Protocol(queries, gallery, itself, n_matches, matches, f"{who}; images {what} match")


class Embedded(NamedTuple):
    """Embeddings of the readable images of a catalog, and why others were left out."""

    embeddings: Embeddings
    catalog: Catalog
    exclusions: tuple[Exclusion, ...] = ()


def embed_catalog(
    encoder: ImageEncoder,
    catalog: Catalog,
    *,
    kept_in: Path | None = None,
    max_bad_share: float = 0.05,
    progress: Callable[[int], None] = lambda _: None,
) -> Embedded:
    """Encode a catalog, or read its embeddings from the cache folder `kept_in`."""
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
    progress(len(catalog))
    reasons: dict[str, list[str]] = {}
    for row, reason in rejected:
        reasons.setdefault(f"cannot be read: {reason}", []).append(catalog.paths[row])
    exclusions = tuple(Exclusion.of(reason, paths) for reason, paths in reasons.items())
    readable = np.setdiff1d(np.arange(len(catalog)), [row for row, _ in rejected])
    return Embedded(embeddings, catalog.select(readable) if rejected else catalog, exclusions)


def each_once(given: Embedded) -> Embedded:
    """Remove copies of other images, by content or by vector; of a query and its copies, the query
    stays.
    """
    catalog, embeddings = given.catalog, given.embeddings
    order = np.argsort(
        [not is_query for is_query in catalog.queries] or [0] * len(catalog), kind="stable"
    )
    digests = file_digests([catalog.file(row) for row in order])
    means = embeddings.mean[order].detach().cpu().numpy()
    labels = [catalog.labels[row] for row in order] if catalog.labels else ()
    first = order[first_copies(means, digests, labels=labels)]
    copies = np.sort(order[first != order])
    if not len(copies):
        return given
    once = np.setdiff1d(order, copies)
    left_out = Exclusion.of("copy of another image", [catalog.paths[row] for row in copies])
    return Embedded(embeddings[once.tolist()], catalog.select(once), (*given.exclusions, left_out))


def _key(encoder: ImageEncoder, catalog: Catalog) -> str:
    """Return the cache key: model, runtime, and the state of the files."""
    digest = hashlib.sha256(encoder.fingerprint.encode())
    if encoder.runtime != "torch":  # whose embeddings have no mark of their own
        digest.update(f"\0{encoder.runtime}".encode())
    for file in catalog.files:
        state = file.stat() if file.exists() else None
        digest.update(f"\0{file}\0{state and (state.st_size, state.st_mtime_ns)}".encode())
    return digest.hexdigest()[:32]
