"""A map of a gallery: its embeddings on a plane, projected in the background when asked for."""

import logging
import os
import sys
from contextlib import suppress
from threading import Lock, Thread, get_native_id
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.errors import SurefindError
from surefind.serve.gallery import GallerySample

PERPLEXITY = 30.0  # neighbours that each image keeps near; the usual choice
FEWEST = 10  # images that t-SNE has something to say about
WIDEST = 50  # dimensions that t-SNE looks at: more cost time and show nothing new
NICENESS = 10  # of the thread: searches go first
DIGITS = 5  # of a position; a screen has fewer

logger = logging.getLogger("surefind.serve")


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
    """The map of a sample; the first question begins it, in a thread that ends with the process."""

    def __init__(self, sample: GallerySample) -> None:
        self._sample, self._lock = sample, Lock()
        self._thread: Thread | None = None
        self._answer: dict[str, Any] | None = None

    @property
    def pending(self) -> str:
        """What it waits for, in words."""
        return f"projecting {_images(len(self._sample))}"

    def answer(self) -> dict[str, Any] | None:
        """The map as JSON; None while it is being projected.

        If it cannot be drawn, it is a map without images whose sentence says why.
        """
        with self._lock:
            if self._thread is None:
                thread = Thread(target=self._draw, name="surefind-map", daemon=True)
                thread.start()
                self._thread = thread
        return self._answer

    def wait(self, seconds: float | None = None) -> None:
        """Until it is drawn, if it was asked for."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _draw(self) -> None:
        if sys.platform == "linux":  # elsewhere it would mean the whole process
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, get_native_id(), NICENESS)
        sample = self._sample
        try:
            x, y = project(sample.means).round(DIGITS).T.tolist()
        except Exception as error:  # told, not raised: there is nobody to catch it in a thread
            logger.exception("the map cannot be drawn")
            reason = error.problem if isinstance(error, SurefindError) else str(error)
            sentence = f"the map cannot be drawn: {reason or repr(error)}"
            empty = {key: list[Any]() for key in ("items", "ids", "labels", "x", "y", "var")}
            self._answer = {"ready": True, "sentence": sentence, **empty}
            return
        self._answer = {
            "ready": True,
            "sentence": _sentence(sample),
            "items": sample.items,
            "ids": list(sample.ids),
            "labels": list(sample.labels),
            "x": x,
            "y": y,
            "var": sample.var.tolist(),
        }


def _sentence(sample: GallerySample) -> str:
    count = len(sample)
    if not count:
        return "there are no images to show"
    shown = f"{count:,} of {_images(sample.of)}" if count < sample.of else _images(count)
    method = "PCA" if count < FEWEST else "t-SNE"
    return f"{shown} by {method}: near each other here means alike"


def _images(count: int) -> str:
    return f"{count:,} image" + "s" * (count != 1)
