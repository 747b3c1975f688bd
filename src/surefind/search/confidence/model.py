"""From evidence to the probability that a hit is a match."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.search.confidence.evidence import COLUMNS, Numbers, Seen, evidence
from surefind.search.confidence.logistic import Logistic, fit_logistic
from surefind.search.confidence.recalibration import Recalibration, fit_recalibration

_FIRST, _LATER = slice(0, 1), slice(1, None)  # hits; the first is another matter than the others


@dataclass(frozen=True)
class ConfidenceModel:
    """One logistic model for the first hit and one for those behind it."""

    names: tuple[str, ...]  # of the columns
    first: Logistic
    later: Logistic
    first_map: Recalibration
    later_map: Recalibration

    def confidence(self, seen: Seen) -> Numbers:
        """P(match) of every hit, (Q, H)."""
        columns = evidence(seen, self.names)
        return np.concatenate(
            [
                self.first_map(self.first.probability(columns[:, _FIRST])),
                self.later_map(self.later.probability(columns[:, _LATER])),
            ],
            axis=1,
        )


class FittedConfidence(NamedTuple):
    """A model fitted to all queries, and what models say that did not see a query's fold."""

    model: ConfidenceModel
    confidence: Numbers  # (Q, H), cross-fitted


def fit_confidence(
    seen: Seen,
    match: NDArray[np.bool_],
    fold: NDArray[np.int64],
    *,
    names: Sequence[str],
    recalibration: str = "beta",
    unseen: Sequence[Seen] = (),
) -> FittedConfidence:
    """Fit to hits (Q, H) of which it is known whether they match.

    No label of a fold, (Q,), influences the cross-fitted confidence of its queries. Where `seen`
    was learned from labels in part, `unseen` holds for each fold what was seen of all queries with
    nothing learned from that fold.
    """
    columns = evidence(seen, names)
    without = [evidence(its, names) for its in unseen] or [columns] * (int(fold.max()) + 1)
    directions = [COLUMNS[name].direction for name in names]
    first, later = (
        _fit_hits(
            columns[:, hits],
            [its[:, hits] for its in without],
            match[:, hits],
            fold,
            directions,
            recalibration,
        )
        for hits in (_FIRST, _LATER)
    )
    model = ConfidenceModel(
        tuple(names), first.logistic, later.logistic, first.recalibration, later.recalibration
    )
    return FittedConfidence(model, np.concatenate([first.crossfitted, later.crossfitted], axis=1))


class _FittedHits(NamedTuple):
    logistic: Logistic
    recalibration: Recalibration
    crossfitted: Numbers  # (Q, hits)


def _fit_hits(
    columns: Numbers,
    unseen: Sequence[Numbers],
    match: NDArray[np.bool_],
    fold: NDArray[np.int64],
    directions: Sequence[int],
    kind: str,
) -> _FittedHits:
    """Fit a logistic model and its recalibration, and cross-fit both (nested cross-validation).

    A recalibration is fitted to probabilities of models that did not see the query's fold. The one
    that judges fold k may not depend on the labels of k either: those models did not see k.
    """
    probability, crossfitted = np.empty(match.shape), np.empty(match.shape)
    for k, its in enumerate(unseen):
        own = fold == k
        inner = np.empty(match.shape)  # of each query: by a model that saw neither k nor its fold
        for j in range(len(unseen)):
            rest = (fold != j) & ~own
            inner[fold == j] = _fit(its[rest], match[rest], directions).probability(its[fold == j])
        nested = _recalibrate(inner[~own], match[~own], kind)
        probability[own], crossfitted[own] = inner[own], nested(inner[own])
    whole = _fit(columns, match, directions)
    return _FittedHits(whole, _recalibrate(probability, match, kind), crossfitted)


def _fit(columns: Numbers, match: NDArray[np.bool_], directions: Sequence[int]) -> Logistic:
    return fit_logistic(
        columns.reshape(-1, columns.shape[-1]), match.reshape(-1), directions=directions
    )


def _recalibrate(probability: Numbers, match: NDArray[np.bool_], kind: str) -> Recalibration:
    return fit_recalibration(probability.reshape(-1), match.reshape(-1), kind=kind)
