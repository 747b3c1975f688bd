"""Who knows when the first hit is wrong? Two encoders, and what may be asked of each."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata  # type: ignore[import-untyped]

from surefind import metrics
from surefind.embeddings import Embeddings
from surefind.images.catalog import Catalog
from surefind.metrics.bootstrap import Estimate
from surefind.reports.crossfit import crossfit_probability
from surefind.reports.signals import COSINE, DEPTH, neighbours, uncertainty_signals
from surefind.search.confidence.guarantee import promise_precision
from surefind.search.confidence.match_model import folds_of
from surefind.search.confidence.quality import Curve

RESAMPLES = 500

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """How well one quantity tells right first hits from wrong ones."""

    encoder: str
    told_by: str
    recall: float  # share of queries whose first hit is right: R@1
    auroc: float  # of a wrong first hit
    ece: float | None  # calibration error, debiased; none where it is no probability
    floor: float | None  # that of a perfect model with as many queries
    answered: float  # share of queries, with the precision promised


@dataclass(frozen=True, eq=False)
class Told:
    """What one quantity says of every query's first hit, more being surer; and the truth."""

    sure: Values  # (Q,)
    right: NDArray[np.bool_]  # (Q,)
    probability: Values | None = None  # (Q,) that the hit is right, by a fit to other classes

    @classmethod
    def by_confidence(cls, curve: Curve) -> "Told":
        """Each query judged by a fit to other classes."""
        confidence = np.array(curve.confidence)
        return cls(confidence, np.array(curve.right), confidence)


def told_by_signals(embeddings: Embeddings, catalog: Catalog, *, learned: bool) -> dict[str, Told]:
    """Every image of the catalog asked of all others."""
    rows = np.arange(len(catalog))
    found = neighbours("means", embeddings, embeddings, DEPTH, itself=rows)
    right = catalog.codes[found.rows[:, 0].numpy()] == catalog.codes
    signals = uncertainty_signals(embeddings, embeddings, found, by_means=found, learned=learned)
    told = {name: Told(-signal.numpy(), right) for name, signal in signals.items()}
    cosine = signals[COSINE].numpy()
    platt = crossfit_probability(cosine, right, catalog.codes, platt=True)
    return {**told, COSINE: Told(-cosine, right, platt)}


def row_of(
    encoder: str, told_by: str, told: Told, *, groups: NDArray[np.int64], precision: float
) -> Row:
    ece = floor = None
    if told.probability is not None:
        probability = torch.from_numpy(told.probability)
        ece = metrics.debiased_calibration_error(probability, torch.from_numpy(told.right))
        floor = metrics.calibration_floor(probability)
    order = rankdata(told.sure) / (len(told.sure) + 1)  # a promise asks for the order alone
    promise = promise_precision(order, told.right, groups, precision=precision)
    return Row(
        encoder,
        told_by,
        recall=float(told.right.mean()),
        auroc=auroc(told, groups=groups),
        ece=ece,
        floor=floor,
        answered=promise.coverage,
    )


def auroc(told: Told, *, groups: NDArray[np.int64]) -> float:
    """Of wrong first hits, averaged within the folds of the cross-fitting; nan if in none."""
    fold = torch.from_numpy(folds_of(groups))
    return metrics.auroc_within(torch.from_numpy(-told.sure), torch.from_numpy(~told.right), fold)


def lead(first: Told, second: Told, *, groups: NDArray[np.int64], seed: int) -> Estimate:
    """By how much the first AUROC is above the second; the interval resamples whole classes."""
    fold = torch.from_numpy(folds_of(groups))

    def resampled(told: Told, weights: torch.Tensor) -> torch.Tensor:
        unsure, wrong = torch.from_numpy(-told.sure), torch.from_numpy(~told.right)
        return metrics.auroc_within(unsure, wrong, fold, weights=weights)

    return metrics.bootstrap(
        lambda weights: resampled(first, weights) - resampled(second, weights),
        len(groups),
        groups=torch.from_numpy(groups),
        resamples=RESAMPLES,
        seed=seed,
    )
