"""Indexed images: names in URLs, a random sample, a map of it; thumbnails, example queries."""

import base64
import io
import logging
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from surefind.confidence.class_table import label_of
from surefind.datasets.folder import find_images
from surefind.engines.base import LONGEST_ID, Engine, EngineError
from surefind.errors import InvalidFile, SurefindError
from surefind.images.decode import ImageRejected, decode_picture

MIN_TSNE = 10  # images; PCA for fewer
MAX_SAMPLES = 12

logger = logging.getLogger("surefind.serve")


def item_of(id: str) -> str:  # noqa: A002
    """Return the name of an image in URLs: its id as base64url without padding."""
    return base64.urlsafe_b64encode(id.encode()).rstrip(b"=").decode()


def id_of(item: str) -> str | None:
    """Return the id of a URL name; None if `item_of` does not produce that name."""
    try:
        name = base64.urlsafe_b64decode(item + "=" * (-len(item) % 4)).decode()
    except ValueError:  # not base64, or not UTF-8
        return None
    usable = "\0" not in name and 0 < len(name.encode()) <= LONGEST_ID
    return name if usable and item_of(name) == item else None  # unused last bits may differ


@dataclass(frozen=True)
class GallerySample:
    """Images in random order."""

    ids: tuple[str, ...]
    labels: tuple[str | None, ...]
    var: NDArray[np.float64]  # (n,)
    means: NDArray[np.float32]  # (n, D)
    every_var: NDArray[np.float64]  # (rows scanned,)
    of: int  # rows in the index


def sample_gallery(engine: Engine, *, most: int = 2000, look_at: int = 100_000, attempts: int = 3) -> GallerySample:
    """Draw `most` of the first `look_at` rows with equal probability. A map of 2000 takes 11 s on one core."""
    keys, every_var, count = [], [np.empty(0)], 0
    for block in engine.scan():
        keys.append(block.keys)
        every_var.append(block.var)
        count += len(block.keys)
        if count >= look_at:
            break
    var = np.concatenate(every_var)[:look_at]
    drawn = np.random.default_rng(0).permutation(len(var))[:most]
    try:
        rows = engine.rows(np.concatenate(keys)[drawn] if keys else np.empty(0, np.int64))
    except EngineError:  # another process removed a row in between
        if attempts == 1:
            raise
        return sample_gallery(engine, most=most, look_at=look_at, attempts=attempts - 1)
    return GallerySample(
        ids=rows.ids,
        labels=tuple(map(label_of, rows.metadata)),
        var=engine.space.var(rows.embeddings),
        means=rows.embeddings.mean.numpy(),
        every_var=var,
        of=max(engine.count(), len(var)),  # rows may have been removed since
    )


def project(means: NDArray[np.float32]) -> NDArray[np.float64]:
    """Project embeddings (n, D) to the unit square (n, 2) by t-SNE, or by PCA if there are few.

    Deterministic; uses one core.
    """
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]
    from sklearn.manifold import TSNE  # type: ignore[import-untyped]
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    centred = means.astype(np.float64)
    if len(centred):
        centred -= centred.mean(axis=0)
    scale = float(np.abs(centred).max(initial=0.0))
    if not scale:
        return np.full((len(means), 2), 0.5)
    wide = np.pad(centred / scale, [(0, 0), (0, max(0, 2 - means.shape[1]))])
    found = PCA(min(50, *wide.shape), random_state=0).fit_transform(wide)
    if len(means) >= MIN_TSNE:
        # OpenMP limits are per thread; a limit on BLAS would slow every search.
        with threadpool_limits(1, user_api="openmp"):
            tsne = TSNE(perplexity=min(30.0, (len(means) - 1) / 3), init="pca", random_state=0)
            found = tsne.fit_transform(found.astype(np.float32)).astype(np.float64)
    # Scale both axes by the same factor, to keep proportions.
    low, high = found[:, :2].min(axis=0), found[:, :2].max(axis=0)
    placed: NDArray[np.float64] = 0.5 + (found[:, :2] - (low + high) / 2) / (high - low).max()
    return placed.clip(0, 1)


@dataclass(frozen=True)
class MapAnswer:
    """A map, without images if it failed or is not ready yet."""

    ready: bool
    sentence: str
    ids: tuple[str, ...] = ()
    items: tuple[str, ...] = ()  # names in URLs
    labels: tuple[str | None, ...] = ()
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    var: tuple[float, ...] = ()


class GalleryMap:
    """Map of a sample, computed in the background on first use."""

    def __init__(self, sample: GallerySample) -> None:
        self._answer = MapAnswer(ready=False, sentence=f"projecting {_images(len(sample.ids))}")
        self._thread = Thread(target=self._draw, args=[sample], name="surefind-map", daemon=True)

    def answer(self) -> MapAnswer:
        """Return the map, or that it is not ready. Used by the event loop only."""
        if self._thread.ident is None:  # not started yet
            self._thread.start()
        return self._answer

    def _draw(self, sample: GallerySample) -> None:
        ids, sentence = sample.ids, "there are no images to show"
        if ids:
            shown = f"{len(ids):,} of " * (len(ids) < sample.of) + _images(sample.of)
            method = "PCA" if len(ids) < MIN_TSNE else "t-SNE"
            sentence = f"{shown} by {method}: similar images are near each other"
        try:
            x, y = map(tuple, project(sample.means).round(5).T.tolist())
        except Exception as error:  # nobody catches it in a thread
            logger.exception("the map cannot be drawn")
            reason = error.problem if isinstance(error, SurefindError) else str(error)
            sentence = f"the map cannot be drawn: {reason or repr(error)}"
            self._answer = MapAnswer(ready=True, sentence=sentence)
            return
        items, var = tuple(map(item_of, ids)), tuple(sample.var.tolist())
        self._answer = MapAnswer(True, sentence, ids, items, sample.labels, x, y, var)


def _images(count: int) -> str:
    return f"{count:,} image" + "s" * (count != 1)


def draw_thumbnail(content: bytes, side: int) -> bytes:
    """Return a JPEG with sides of at most `side`: upright, first frame, no metadata.

    A tiny image is enlarged by an integer factor without smoothing, so that blur stays visible.
    """
    picture = decode_picture(content)
    if max(picture.size) <= 64:
        factor = max(1, side // max(picture.size))
        picture = picture.resize((factor * picture.width, factor * picture.height), Image.Resampling.NEAREST)
    picture.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=3.0)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=85, subsampling=0)  # keeps coloured edges sharp
    return file.getvalue()


def read_samples(folder: Path) -> list[tuple[str, bytes]]:
    """Return names and PNGs, of at most 1024 pixels a side, of the first usable images; log the others."""
    samples: list[tuple[str, bytes]] = []
    for path in find_images(folder):
        if len(samples) == MAX_SAMPLES:
            break
        try:
            picture = decode_picture(folder / path)
        except ImageRejected as rejected:
            skipped = f"{path}: {rejected.reason}"
            logger.warning("sample skipped: %s", skipped)
            continue
        picture.thumbnail((1024, 1024), Image.Resampling.LANCZOS, reducing_gap=3.0)
        file = io.BytesIO()
        picture.save(file, "PNG")
        samples.append((path, file.getvalue()))
    if not samples:
        raise InvalidFile(f"{folder}: no usable image, e.g. {skipped}")
    return samples
