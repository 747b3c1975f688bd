"""Corruption ladder: search again with queries corrupted level by level."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata  # type: ignore[import-untyped]

from surefind.embeddings import Embeddings
from surefind.encoders.image_encoder import ImageEncoder
from surefind.images.catalog import Catalog
from surefind.images.corruptions import KINDS, LEVELS, corrupt
from surefind.images.decode import ImageSource, decode_picture
from surefind.images.matches import Rows
from surefind.reports.result import Ladder, Rung


class CorruptedResult(NamedTuple):
    """Search results of n queries at one level of corruption."""

    correct: NDArray[np.bool_]  # (n,) the top hit is a match
    signals: dict[str, NDArray[np.float64]]  # (n,) each


SearchFunction = Callable[[Embeddings, Rows], CorruptedResult]  # n queries, their catalog rows


def n_encoded(n_queries: int) -> int:
    """Return how many images `corruption_ladder` encodes."""
    return n_queries * (1 + len(KINDS) * LEVELS)


def corruption_ladder(
    encoder: ImageEncoder,
    catalog: Catalog,
    *,
    rows: Rows,
    search: SearchFunction,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Ladder:
    """Search with the queries at `rows` of the catalog at every kind and level of corruption.

    `progress` is called with the number of images encoded so far.
    """
    files = [catalog.file(int(row)) for row in rows]
    clean = encoder.encode_all(files, max_bad_share=0.0, progress=progress)
    results = {kind: [search(clean.embeddings, rows)] for kind in KINDS}
    for rung, (kind, level) in enumerate(product(KINDS, range(1, LEVELS + 1)), start=1):

        def after(count: int, done: int = rung * len(rows)) -> None:
            progress(done + count)

        images = _Corrupted(catalog, rows, kind=kind, level=level, seed=seed)
        encoded = encoder.encode_all(images, max_bad_share=0.0, progress=after)
        results[kind].append(search(encoded.embeddings, rows))
    progress(n_encoded(len(rows)))
    rungs = tuple(
        Rung(
            kind=kind,
            level=level,
            recall=float(result.correct.mean()),
            signals={name: float(np.median(values)) for name, values in result.signals.items()},
        )
        for kind, found in results.items()
        for level, result in enumerate(found)
    )
    spearman = {
        kind: {
            name: mean_rank_correlation(np.stack([result.signals[name] for result in found]))
            for name in found[0].signals
        }
        for kind, found in results.items()
    }
    return Ladder(queries=len(rows), rungs=rungs, spearman=spearman)


def mean_rank_correlation(uncertainty: NDArray[np.float64]) -> float:
    """Return Spearman's correlation of level and uncertainty (levels, n), the mean over n queries.

    A query whose uncertainty is constant counts as 0.

    >>> mean_rank_correlation(np.array([[1.0, 5.0], [2.0, 5.0], [9.0, 5.0]]))
    0.5
    """
    levels = np.arange(len(uncertainty)) - (len(uncertainty) - 1) / 2
    ranks = rankdata(uncertainty, axis=0)
    ranks -= ranks.mean(axis=0)
    length = np.sqrt((levels**2).sum() * (ranks**2).sum(axis=0))
    correlation = np.divide(levels @ ranks, length, out=np.zeros(len(length)), where=length > 0)
    return float(correlation.mean())


class _Corrupted(Sequence[ImageSource]):
    """Corrupted images, made when they are read to save memory."""

    def __init__(self, catalog: Catalog, rows: Rows, *, kind: str, level: int, seed: int) -> None:
        self.catalog, self.rows = catalog, rows.tolist()
        self.kind, self.level, self.seed = kind, level, seed

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:  # Any: no slices
        row = self.rows[index]
        image = decode_picture(self.catalog.file(row))
        return corrupt(image, self.kind, self.level, seed=(self.seed, row))
