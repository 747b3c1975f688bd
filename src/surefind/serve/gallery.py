"""A gallery as a whole: names of its images in URLs, a sample of them, and a map of the sample."""

import base64
import logging
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread, get_native_id
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.engines.base import LONGEST_ID, Engine, EngineError
from surefind.errors import InvalidArgument, SurefindError

MOST = 2000  # images of a sample; a map of them takes 11 s on one core
LOOK_AT = 100_000  # rows
TRIES = 3
PERPLEXITY = 30.0  # neighbours that each image keeps near; the usual choice
FEWEST = 10  # images that t-SNE has something to say about
WIDEST = 50  # dimensions that t-SNE looks at: more cost time and show nothing new
NICENESS = 10  # of the thread: searches go first
DIGITS = 5  # of a position; a screen has fewer

_LONGEST_ITEM = (4 * LONGEST_ID + 2) // 3  # characters
_ITEM = re.compile(rf"[A-Za-z0-9_-]{{2,{_LONGEST_ITEM}}}", re.ASCII)

logger = logging.getLogger("surefind.serve")


def item_of(id: str) -> str:  # noqa: A002
    """The name of an image in URLs, of which no path can be made: base64url without padding."""
    return base64.urlsafe_b64encode(id.encode()).rstrip(b"=").decode()


def id_of(item: str) -> str | None:
    """The id that an item is the name of; None where `item_of` writes no such text."""
    if not _ITEM.fullmatch(item):
        return None
    try:
        name = base64.urlsafe_b64decode(item + "=" * (-len(item) % 4)).decode()
    except ValueError:  # not base64 after all, or not UTF-8
        return None
    proper = "\0" not in name and item_of(name) == item  # one item an id: the last bits may differ
    return name if proper else None


@dataclass(frozen=True)
class GallerySample:
    """Images in random order, so that the first of them are an even sample as well."""

    ids: tuple[str, ...]
    labels: tuple[str | None, ...]
    var: NDArray[np.float64]  # (n,)
    means: NDArray[np.float32]  # (n, D)
    every_var: NDArray[np.float64]  # (rows looked at,), also of those that are not in the sample
    of: int  # rows there are


def sample_gallery(engine: Engine, *, most: int = MOST, look_at: int = LOOK_AT) -> GallerySample:
    """Draw `most` of the first `look_at` rows, each as likely as any other; if fewer, all."""
    for _ in range(TRIES - 1):
        with suppress(InvalidArgument, EngineError):  # another process removed a row in between
            return _sample(engine, most=most, look_at=look_at)
    return _sample(engine, most=most, look_at=look_at)


def _sample(engine: Engine, *, most: int, look_at: int) -> GallerySample:
    keys, every_var, count = [], [np.empty(0)], 0
    for block in engine.scan():
        keys.append(block.keys)
        every_var.append(block.var)
        count += len(block.keys)
        if count >= look_at:
            break
    var = np.concatenate(every_var)[:look_at]
    drawn = np.random.default_rng(0).permutation(len(var))[:most]
    rows = engine.rows(np.concatenate(keys)[drawn] if keys else np.empty(0, np.int64))
    labels = [metadata.get("label") for metadata in rows.metadata]
    return GallerySample(
        ids=rows.ids,
        labels=tuple(None if label is None else str(label) for label in labels),
        var=engine.space.var(rows.embeddings),
        means=rows.embeddings.mean.numpy(),
        every_var=var,
        of=max(engine.count(), len(var)),  # rows may have been removed since
    )


def project(means: NDArray[np.float32], *, seed: int = 0) -> NDArray[np.float64]:
    """Positions of embeddings (n, D) in the unit square, (n, 2): t-SNE, or PCA where few.

    Works on one core. Equal input gives equal output.
    """
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]
    from sklearn.manifold import TSNE  # type: ignore[import-untyped]
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    centred = means.astype(np.float64)
    if len(centred):
        centred -= centred.mean(axis=0)
    spread = float(np.abs(centred).max(initial=0.0))
    if not spread:
        return np.full((len(means), 2), 0.5)
    wide = np.pad(centred / spread, [(0, 0), (0, max(0, 2 - means.shape[1]))])
    found = PCA(min(WIDEST, *wide.shape), random_state=seed).fit_transform(wide)
    if len(means) >= FEWEST:
        perplexity = min(PERPLEXITY, (len(means) - 1) / 3)
        # Only OpenMP, which keeps such a limit per thread: one on BLAS would slow every search.
        with threadpool_limits(1, user_api="openmp"):
            tsne = TSNE(perplexity=perplexity, init="pca", random_state=seed)
            found = tsne.fit_transform(found.astype(np.float32)).astype(np.float64)
    # Both axes by the same factor, in the middle: distances keep their proportions.
    low, high = found[:, :2].min(axis=0), found[:, :2].max(axis=0)
    placed: NDArray[np.float64] = 0.5 + (found[:, :2] - (low + high) / 2) / (high - low).max()
    return placed.clip(0, 1)


class GalleryMap:
    """The map of a sample, projected in the background once it is first asked for."""

    def __init__(self, sample: GallerySample) -> None:
        self._sample, self._lock = sample, Lock()
        self._answer: dict[str, Any] | None = None
        self._thread = Thread(target=self._draw, name="surefind-map", daemon=True)

    @property
    def pending(self) -> str:
        """What it waits for, in words."""
        return f"projecting {_images(len(self._sample.ids))}"

    def answer(self) -> dict[str, Any] | None:
        """The map as JSON; None while it is being projected.

        If it cannot be drawn, it is a map without images whose sentence says why.
        """
        with self._lock:
            if self._thread.ident is None:  # not started yet
                self._thread.start()
        return self._answer

    def _draw(self) -> None:
        if sys.platform == "linux":  # elsewhere it would mean the whole process
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, get_native_id(), NICENESS)
        sample, ids = self._sample, list(self._sample.ids)
        labels, var = list(sample.labels), sample.var.tolist()
        sentence = "there are no images to show"
        if ids:
            shown = f"{len(ids):,} of " * (len(ids) < sample.of) + _images(sample.of)
            method = "PCA" if len(ids) < FEWEST else "t-SNE"
            sentence = f"{shown} by {method}: near each other here means alike"
        try:
            x, y = project(sample.means).round(DIGITS).T.tolist()
        except Exception as error:  # there is nobody to catch it in a thread
            logger.exception("the map cannot be drawn")
            reason = error.problem if isinstance(error, SurefindError) else str(error)
            sentence = f"the map cannot be drawn: {reason or repr(error)}"
            ids, labels, x, y, var = [], [], [], [], []
        self._answer = {
            "ready": True,
            "sentence": sentence,
            "items": list(map(item_of, ids)),
            "ids": ids,
            "labels": labels,
            "x": x,
            "y": y,
            "var": var,
        }


def _images(count: int) -> str:
    return f"{count:,} image" + "s" * (count != 1)
