"""Who knows when the first hit is wrong? Both encoders: distances, variance, confidence."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata  # type: ignore[import-untyped]

from surefind import metrics
from surefind.confidence.calibration import Curve
from surefind.confidence.guarantee import guarantee_precision
from surefind.confidence.match_model import folds_of
from surefind.embeddings import Embeddings, Gaussians
from surefind.images.catalog import Catalog
from surefind.metrics.bootstrap import Estimate
from surefind.reports.signals import (
    COSINE,
    DEPTH,
    crossfit_probability,
    neighbours,
    signal_name,
    uncertainty_signals,
)

RATIO = "ratio_1_20"  # the best signal that needs no training
BASELINE, BAYESIAN = "triplet baseline", "Bayesian encoder"
RESAMPLES = 500

Values = NDArray[np.float64]
Groups = NDArray[np.int64]


class Row(NamedTuple):
    """How well one quantity tells right first hits from wrong ones."""

    encoder: str
    told_by: str
    recall: float  # share of queries whose first hit is right: R@1
    auroc: float  # of a wrong first hit, the mean within folds of classes; nan if in none
    ece: float | None  # calibration error, debiased; none where it is no probability
    floor: float | None  # that of a perfect model with as many queries
    answered: float  # share of queries, with the guaranteed precision


class HitConfidence(NamedTuple):
    """What one quantity says of every query's first hit, more being surer; and the truth."""

    sure: Values  # (Q,)
    right: NDArray[np.bool_]  # (Q,)
    probability: Values | None = None  # (Q,) that the hit is right, by a fit to other classes

    def row(self, encoder: str, told_by: str, *, groups: Groups, precision: float) -> Row:
        ece = floor = None
        if self.probability is not None:
            probability = torch.from_numpy(self.probability)
            ece = metrics.debiased_calibration_error(probability, torch.from_numpy(self.right))
            floor = metrics.calibration_floor(probability)
        order = rankdata(self.sure) / (len(self.sure) + 1)  # a guarantee asks for the order alone
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


def by_curve(curve: Curve) -> HitConfidence:
    """Take the cross-fitted confidences of a calibration."""
    confidence = np.array(curve.confidence)
    return HitConfidence(confidence, np.array(curve.right), confidence)


def lead(first: HitConfidence, second: HitConfidence, groups: Groups, *, seed: int) -> Estimate:
    """By how much the first AUROC is above the second; the interval resamples whole classes."""
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
    upgrade: Curve,
    embeddings: Embeddings,
    confidence: Curve,
    precision: float,
    seed: int,
) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Return the rows of the table, and sentences on how to read it.

    Everything is about the same queries: the images of the gallery, in its order. `points` are
    the baseline's vectors, `embeddings` those of the Bayesian encoder.
    """
    groups = gallery.codes
    plain = by_signals(Gaussians(points, torch.ones(len(points))), gallery, learned=False)
    bayes = by_signals(embeddings, gallery, learned=True)
    upgraded, sure = by_curve(upgrade), by_curve(confidence)
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
    """Say whether the first knows better than the second when it is wrong, and how sure that is."""
    how = "better than" if ahead.low > 0 else "worse than" if ahead.high < 0 else "no better than"
    return (
        f"{first.encoder}: {first.told_by} (AUROC {first.auroc:.3f}) is {how} the "
        f"{second.told_by} ({second.auroc:.3f}); the difference is {ahead.value:+.3f}, over "
        f"classes {ahead.low:+.3f} to {ahead.high:+.3f}."
    )
