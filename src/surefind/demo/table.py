"""Who knows when the first hit is wrong? Two encoders, and what may be asked of each."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata  # type: ignore[import-untyped]

from surefind import metrics
from surefind.embeddings import Embeddings
from surefind.images.catalog import Catalog
from surefind.metrics.bootstrap import Estimate, resample_counts
from surefind.reports.ranking import neighbours
from surefind.reports.signals import TRAINING_FREE, uncertainty_signals
from surefind.search.confidence.promise import promise_precision
from surefind.search.confidence.quality import Curve

FARTHEST = 10  # neighbour that a signal looks at
RESAMPLES = 500

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """How well one quantity tells right first hits from wrong ones."""

    encoder: str
    told_by: str
    recall: float  # share of queries whose first hit is right: R@1
    auroc: float  # of a wrong first hit
    ece: float | None  # calibration error; none where it is no probability
    answered: float  # share of queries, with the precision promised


@dataclass(frozen=True, eq=False)
class Told:
    """What one quantity says of every query's first hit, more being surer; and the truth."""

    sure: Values  # (Q,)
    right: NDArray[np.bool_]  # (Q,)
    is_probability: bool = False

    @classmethod
    def by_confidence(cls, curve: Curve) -> "Told":
        """Each query judged by a fit to other classes."""
        return cls(np.array(curve.confidence), np.array(curve.right), is_probability=True)


def told_by_signals(embeddings: Embeddings, catalog: Catalog, *, learned: bool) -> dict[str, Told]:
    """Every image of the catalog asked of all others."""
    rows = np.arange(len(catalog))
    found = neighbours("means", embeddings, embeddings, FARTHEST, itself=rows)
    right = catalog.codes[found.rows[:, 0].numpy()] == catalog.codes
    signals = uncertainty_signals(embeddings, embeddings, found, learned=learned)
    return {name: Told(-signal.numpy(), right) for name, signal in signals.items()}


def best_free(told: dict[str, Told]) -> str:
    """Of the signals that need no training, the one that looks best afterwards."""
    return max((name for name in TRAINING_FREE if name in told), key=lambda name: auroc(told[name]))


def row_of(
    encoder: str, told_by: str, told: Told, *, groups: NDArray[np.int64], precision: float
) -> Row:
    sure, right = torch.from_numpy(told.sure), torch.from_numpy(told.right)
    ece = None
    if told.is_probability:
        ece = metrics.expected_calibration_error(sure, right.double(), definition="probability")
    order = rankdata(told.sure) / (len(told.sure) + 1)  # a promise asks for the order alone
    promise = promise_precision(order, told.right, groups, precision=precision)
    return Row(encoder, told_by, float(told.right.mean()), auroc(told), ece, promise.coverage)


def auroc(told: Told) -> float:
    """Of telling wrong first hits; nan where all are right, or all wrong."""
    if told.right.all() or not told.right.any():
        return float("nan")
    return metrics.auroc(torch.from_numpy(-told.sure), torch.from_numpy(~told.right))


def lead(first: Told, second: Told, *, groups: NDArray[np.int64], seed: int) -> Estimate:
    """By how much the first AUROC is above the second; the interval resamples whole classes."""
    drawn = resample_counts(int(groups.max()) + 1, RESAMPLES, seed=seed)
    weights = torch.cat([torch.ones(1, len(groups)), drawn[:, torch.from_numpy(groups)]])

    def resampled(told: Told) -> torch.Tensor:
        wrong = torch.from_numpy(~told.right)
        return metrics.auroc(torch.from_numpy(-told.sure), wrong, weights=weights)

    differences = (resampled(first) - resampled(second)).double()
    known = differences[1:][~differences[1:].isnan()]
    low, high = known.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Estimate(float(differences[0]), low, high)
