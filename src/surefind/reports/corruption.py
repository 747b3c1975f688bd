"""The corruption ladder: the same queries corrupted step by step, and searched again."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata  # type: ignore[import-untyped]

from surefind.embeddings import Embeddings
from surefind.encoders.image_encoder import ImageEncoder
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog
from surefind.images.corruptions import KINDS, LEVELS, corrupt
from surefind.images.decode import ImageSource, decode_picture
from surefind.images.matches import Rows
from surefind.reports.result import Ladder, Rung


class Answer(NamedTuple):
    """What a search found for n queries, and how unsure it was."""

    correct: NDArray[np.bool_]  # (n,) the top hit is a match
    signals: dict[str, NDArray[np.float64]]  # (n,) each; finite, or nan where it is not known


Ask = Callable[[Embeddings, Rows], Answer]  # n queries, and which rows of the catalog they are


def steps(n_queries: int) -> int:
    """Return how many images are encoded; what `progress` ends at."""
    return n_queries * (1 + len(KINDS) * LEVELS)


def climb(
    encoder: ImageEncoder,
    catalog: Catalog,
    *,
    rows: Rows,
    ask: Ask,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Ladder:
    """Ask the queries at `rows` of the catalog at every kind and level of corruption.

    A query that cannot be read takes no part. A signal is left out where some rung does not know
    it for any query. `progress` is told how many images are encoded, those left out included.
    """
    clean = encoder.encode_all(
        [catalog.file(int(row)) for row in rows], max_bad_share=1.0, progress=progress
    )
    if len(clean.rows) == 0:
        raise InvalidArgument(
            "rows", expected="at least one query that can be read", got=f"none of {len(rows)}"
        )
    asked, rows = len(rows), rows[clean.rows.numpy()]
    unspoiled = ask(clean.embeddings, rows)
    answers = {kind: [unspoiled] for kind in KINDS}
    for rung, (kind, level) in enumerate(product(KINDS, range(1, LEVELS + 1)), start=1):

        def after(count: int, done: int = rung * asked) -> None:
            progress(done + count)

        images = _Corrupted(catalog, rows, kind=kind, level=level, seed=seed)
        encoded = encoder.encode_all(images, max_bad_share=0.0, progress=after)
        answers[kind].append(ask(encoded.embeddings, rows))
    progress(steps(asked))
    everything = [answer for found in answers.values() for answer in found]
    signals = [
        name
        for name in unspoiled.signals
        if not any(np.isnan(answer.signals[name]).all() for answer in everything)
    ]
    rungs = tuple(
        Rung(
            kind=kind,
            level=level,
            recall=float(answer.correct.mean()),
            signals={name: float(np.nanmedian(answer.signals[name])) for name in signals},
        )
        for kind, found in answers.items()
        for level, answer in enumerate(found)
    )
    spearman = {
        kind: {
            name: mean_rank_correlation(np.stack([answer.signals[name] for answer in found]))
            for name in signals
        }
        for kind, found in answers.items()
    }
    return Ladder(queries=len(rows), rungs=rungs, spearman=spearman)


def mean_rank_correlation(uncertainty: NDArray[np.float64]) -> float:
    """Return Spearman's correlation of level and uncertainty (levels, n), the mean over n queries.

    A query whose uncertainty never moves counts as 0: it does not rise. One with a nan is left
    out, and when no query is left the answer is 0 as well, since JSON has no nan.

    >>> mean_rank_correlation(np.array([[1.0, 5.0], [2.0, 5.0], [9.0, 5.0]]))
    0.5
    """
    known = uncertainty[:, ~np.isnan(uncertainty).any(axis=0)]
    if known.shape[1] == 0:
        return 0.0
    levels = np.arange(len(known)) - (len(known) - 1) / 2
    ranks = rankdata(known, axis=0)
    ranks -= ranks.mean(axis=0)
    length = np.sqrt((levels**2).sum() * (ranks**2).sum(axis=0))
    correlation = np.divide(levels @ ranks, length, out=np.zeros(len(length)), where=length > 0)
    return float(correlation.mean())


class _Corrupted(Sequence[ImageSource]):
    """Pictures made when they are asked for, so that few are in memory."""

    def __init__(self, catalog: Catalog, rows: Rows, *, kind: str, level: int, seed: int) -> None:
        self.catalog, self.rows = catalog, rows.tolist()
        self.kind, self.level, self.seed = kind, level, seed

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:  # Any: nobody asks for a slice
        row = self.rows[index]
        image = decode_picture(self.catalog.file(row))
        return corrupt(image, self.kind, self.level, seed=(self.seed, row))
