"""Table of how well each signal detects a wrong first hit; three queries: easy, hard, foreign."""

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy.stats import rankdata  # type: ignore[import-untyped]

from surefind import metrics
from surefind.confidence.calibration import Calibration
from surefind.confidence.conformal import MATCH, NO_MATCH, UNSURE
from surefind.confidence.guarantee import guarantee_precision
from surefind.confidence.match_model import folds_of
from surefind.embeddings import Embeddings, Gaussians
from surefind.images.catalog import Catalog
from surefind.metrics.intervals import Estimate
from surefind.reports.rankings import Embedded
from surefind.reports.signals import (
    COSINE,
    DEPTH,
    crossfit_probability,
    neighbours,
    signal_name,
    uncertainty_signals,
)
from surefind.search.hits import SearchResult
from surefind.search.index import Index
from surefind.storage import make_writable, write_whole

RATIO = "ratio_1_20"  # the best signal that needs no training
BASELINE, BAYESIAN = "triplet baseline", "Bayesian encoder"
RESAMPLES = 500
SHOWN = 3  # hits of each query

Values = NDArray[np.float64]
Groups = NDArray[np.int64]


class Row(NamedTuple):
    """How well one quantity separates right first hits from wrong ones."""

    encoder: str
    told_by: str
    recall: float  # share of queries whose first hit is right: R@1
    auroc: float  # of a wrong first hit, the mean within folds of classes; nan if in none
    ece: float | None  # calibration error, debiased; none where it is no probability
    floor: float | None  # that of a perfect model with as many queries
    answered: float  # share of queries, with the guaranteed precision


class HitConfidence(NamedTuple):
    """Certainty of every query's first hit by one quantity (higher is surer), and the truth."""

    sure: Values  # (Q,)
    right: NDArray[np.bool_]  # (Q,)
    probability: Values | None = None  # (Q,) that the hit is right, by a fit to other classes

    def row(self, encoder: str, told_by: str, *, groups: Groups, precision: float) -> Row:
        ece = floor = None
        if self.probability is not None:
            probability = torch.from_numpy(self.probability)
            ece = metrics.debiased_calibration_error(probability, torch.from_numpy(self.right))
            floor = metrics.calibration_floor(probability)
        order = rankdata(self.sure) / (len(self.sure) + 1)  # a guarantee depends on the order alone
        answered = guarantee_precision(order, self.right, groups, precision=precision).coverage
        auroc = metrics.auroc_within(*self.wrong_hits(groups))
        return Row(encoder, told_by, float(self.right.mean()), auroc, ece, floor, answered)

    def wrong_hits(self, groups: Groups) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return how unsure, whether wrong, and the fold of each query's class."""
        columns = (-self.sure, ~self.right, folds_of(groups))
        unsure, wrong, fold = map(torch.from_numpy, columns)
        return unsure, wrong, fold


def by_signals(
    embeddings: Embeddings, catalog: Catalog, *, learned: bool
) -> dict[str, HitConfidence]:
    """Search every image of the catalog among the others; the cosine is Platt-scaled."""
    rows = np.arange(len(catalog))
    found = neighbours("means", embeddings, embeddings, DEPTH, itself=rows)
    right = catalog.codes[found.rows[:, 0].numpy()] == catalog.codes
    signals = uncertainty_signals(embeddings, embeddings, found, by_means=found, learned=learned)
    sure = {name: HitConfidence(-signal.numpy(), right) for name, signal in signals.items()}
    platt = crossfit_probability(signals[COSINE].numpy(), right, catalog.codes, platt=True)
    return sure | {COSINE: sure[COSINE]._replace(probability=platt)}


def lead(first: HitConfidence, second: HitConfidence, groups: Groups, *, seed: int) -> Estimate:
    """Difference of the AUROCs; the interval resamples whole classes."""
    one, other = first.wrong_hits(groups), second.wrong_hits(groups)
    return metrics.bootstrap(
        lambda weights: (
            metrics.auroc_within(*one, weights=weights)
            - metrics.auroc_within(*other, weights=weights)
        ),
        len(groups),
        groups=torch.from_numpy(groups),
        resamples=RESAMPLES,
        seed=seed,
    )


def compare(
    gallery: Catalog,
    *,
    points: torch.Tensor,
    upgrade: Calibration,
    embeddings: Embeddings,
    calibration: Calibration,
    seed: int,
) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Return the rows of the table, and sentences on how to read it.

    The queries are the images of the gallery, in its order; `points` are the baseline's vectors.
    """
    groups, precision = gallery.codes, calibration.guarantee.precision
    plain = by_signals(Gaussians(points, torch.ones(len(points))), gallery, learned=False)
    bayes = by_signals(embeddings, gallery, learned=True)
    upgraded, sure = (
        HitConfidence(np.array(curve.confidence), np.array(curve.right), np.array(curve.confidence))
        for curve in (upgrade.curve, calibration.curve)
    )
    rows = tuple(
        quantity.row(encoder, name, groups=groups, precision=precision)
        for encoder, name, quantity in (
            (BASELINE, "nearest distance", plain["nearest_distance"]),
            (BASELINE, signal_name(COSINE), plain[COSINE]),
            (BASELINE, signal_name(RATIO), plain[RATIO]),
            (BASELINE, "your own vectors + upgrade", upgraded),
            (BAYESIAN, signal_name(RATIO), bayes[RATIO]),
            (BAYESIAN, "learned variance", bayes["query_var"]),
            (BAYESIAN, "surefind's confidence", sure),
        )
    )
    how_to_read = (
        f"Each of {len(gallery):,} glyphs, of {len(gallery.classes)} classes that no encoder was "
        "trained with, searches the others; whatever judges a glyph was fitted to other classes. "
        "AUROC: 0.5 is guessing, 1 is to know every wrong first hit. Calibration error: debiased; "
        "beside it that of a perfect model with as many queries. Answered: the share of queries "
        f"that can be answered when {100 * precision:g} % of the answers are to be right. "
        "Distances and their ratio d₁/d₂₀ need no training."
    )
    return rows, (
        how_to_read,
        compared(rows[6], rows[4], lead(sure, bayes[RATIO], groups, seed=seed)),
        compared(rows[3], rows[2], lead(upgraded, plain[RATIO], groups, seed=seed)),
    )


def compared(first: Row, second: Row, ahead: Estimate) -> str:
    """Return a sentence: which detects wrong first hits better, with the interval."""
    how = "better than" if ahead.low > 0 else "worse than" if ahead.high < 0 else "no better than"
    return (
        f"{first.encoder}: {first.told_by} (AUROC {first.auroc:.3f}) is {how} the "
        f"{second.told_by} ({second.auroc:.3f}); the difference is {ahead.value:+.3f}, over "
        f"classes {ahead.low:+.3f} to {ahead.high:+.3f}."
    )


@dataclass(frozen=True)
class Question:
    """A query, its true label, and the result."""

    kind: str  # easy, hard or foreign
    about: str
    label: str | None  # none where nothing in the index can be right
    path: Path
    result: SearchResult

    def as_dict(self) -> dict[str, Any]:
        first = self.result.hits[0]
        label = first.metadata.get("label")
        return {
            "kind": self.kind,
            "about": self.about,
            "path": str(self.path),
            "label": self.label,
            "verdict": self.result.verdict,
            "confidence": self.result.confidence,
            "novelty_p_value": self.result.novelty_p_value,
            "first_hit": first.id,
            "first_label": label,
            "right": self.label is not None and label == self.label,
        }


def ask(
    index: Index, kept_out: Catalog, symbols: Embedded, folder: Path
) -> tuple[tuple[Question, ...], dict[str, Any]]:
    """Search with all images; write one of each verdict to the folder and search with it again."""
    own = index.search(index.encoder.encode(kept_out.files), SHOWN)
    foreign = index.search(symbols.embeddings, SHOWN)
    easy = best_with(own, MATCH, by=[result.confidence or 0.0 for result in own])
    hard = best_with(own, UNSURE, by=kept_out.difficulty)
    make_writable(folder)
    questions = []
    for kind, about, row in (
        ("easy", "the glyph, of those kept out, that it is surest of", easy),
        ("hard", "the most spoilt of those it is unsure of", hard),
    ):
        path = folder / f"{kind}.png"
        write_whole(path, kept_out.file(row).read_bytes())
        answer = index.search(path, SHOWN)
        questions.append(Question(kind, about, kept_out.labels[row], path, answer))
    questions.append(foreign_question(index, symbols.catalog, foreign, folder / "foreign.png"))
    return tuple(questions), count_verdicts(own, kept_out, foreign)


def foreign_question(
    index: Index, symbols: Catalog, theirs: list[SearchResult], path: Path
) -> Question:
    """Search with a chess board; if it passes for a glyph, with the strangest of the symbols."""
    squares = (np.indices((64, 64)) // 8).sum(axis=0) % 2
    file = io.BytesIO()
    Image.fromarray((255 * squares).astype(np.uint8)).save(file, "PNG")
    about, picture = "a chess board, which is no glyph at all", file.getvalue()
    if index.search(picture, SHOWN).verdict != NO_MATCH:
        strange = [-(result.novelty_p_value or 0.0) for result in theirs]
        about = "the strangest of the symbols, which are no letters"
        picture = symbols.file(best_with(theirs, NO_MATCH, by=strange)).read_bytes()
    write_whole(path, picture)
    return Question("foreign", about, None, path, index.search(path, SHOWN))


def best_with(results: Sequence[SearchResult], verdict: str, *, by: Sequence[float]) -> int:
    """Return the highest of those with the verdict; of all, if none has it."""
    return max(range(len(results)), key=lambda row: (results[row].verdict == verdict, by[row]))


def count_verdicts(
    own: Sequence[SearchResult], kept_out: Catalog, theirs: Sequence[SearchResult]
) -> dict[str, Any]:
    """Count verdicts of glyphs, matches among them that are right, and symbols called foreign."""
    counts = Counter(result.verdict for result in own)
    return {
        "kept_out": {verdict: counts[verdict] for verdict in (MATCH, UNSURE, NO_MATCH)},
        "right_matches": sum(
            result.verdict == MATCH and result.hits[0].metadata.get("label") == label
            for result, label in zip(own, kept_out.labels, strict=True)
        ),
        "symbols": len(theirs),
        "foreign_symbols": sum(result.verdict == NO_MATCH for result in theirs),
    }
