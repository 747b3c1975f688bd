"""The corruption ladder: the same queries made worse step by step, and asked again."""

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
Progress = Callable[[int], None]


def sample_queries(rows: Rows, n: int, *, seed: int) -> Rows:
    """At most n of the rows, ascending."""
    chosen = np.random.default_rng(seed).choice(rows, size=min(n, len(rows)), replace=False)
    return np.sort(chosen)


def steps(n_queries: int) -> int:
    """How many images are encoded on the way up; what `progress` ends at."""
    return n_queries * (1 + len(KINDS) * LEVELS)


def climb(
    encoder: ImageEncoder,
    catalog: Catalog,
    *,
    rows: Rows,
    ask: Ask,
    seed: int = 0,
    progress: Progress | None = None,
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
        images = _Corrupted(catalog, rows, kind=kind, level=level, seed=seed)
        encoded = encoder.encode_all(
            images, max_bad_share=0.0, progress=_after(rung * asked, progress)
        )
        answers[kind].append(ask(encoded.embeddings, rows))
    if progress is not None:
        progress(steps(asked))
    return _summary(answers, len(rows))


def mean_rank_correlation(uncertainty: NDArray[np.float64]) -> float:
    """Spearman's correlation of level and uncertainty (levels, n), the mean over n queries.

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
    """Pictures made when they are asked for, so that only those in work are in memory."""

    def __init__(self, catalog: Catalog, rows: Rows, *, kind: str, level: int, seed: int) -> None:
        self.catalog, self.rows = catalog, rows.tolist()
        self.kind, self.level, self.seed = kind, level, seed

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:  # Any: nobody asks for a slice
        row = self.rows[index]
        image = decode_picture(self.catalog.file(row))
        return corrupt(image, self.kind, self.level, seed=(self.seed, row))


def _after(done: int, progress: Progress | None) -> Progress | None:
    """Progress that goes on from where the passes before ended."""
    return None if progress is None else lambda count: progress(done + count)


def _summary(answers: dict[str, list[Answer]], queries: int) -> Ladder:
    everything = [answer for found in answers.values() for answer in found]
    signals = [
        name
        for name in everything[0].signals
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
    return Ladder(queries=queries, rungs=rungs, spearman=spearman)
