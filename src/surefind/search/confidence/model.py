"""From evidence to the probability that a hit is a match."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold  # type: ignore[import-untyped]

from surefind.search.confidence.logistic import Logistic, fit_logistic
from surefind.search.confidence.recalibration import Recalibration, fit_recalibration
from surefind.search.evidence.columns import COLUMNS, evidence
from surefind.search.evidence.seen import Numbers, Seen

FOLDS = 5
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
    """A model fitted to all queries, and what models say that did not see a query's group."""

    model: ConfidenceModel
    confidence: Numbers  # (Q, H)


def fit_confidence(
    seen: Seen,
    match: NDArray[np.bool_],
    groups: NDArray[np.generic],
    *,
    names: Sequence[str],
    recalibration: str = "beta",
) -> FittedConfidence:
    """Fitted to hits (Q, H) of which it is known whether they match.

    Groups (classes) stay together: each query is judged by a fit to other groups, and the
    recalibration is fitted to those judgements, again by groups.
    """
    columns = evidence(seen, names)
    directions = [COLUMNS[name].direction for name in names]
    folds = list(_folds(groups))
    parts = []
    for hits in (_FIRST, _LATER):
        own, true = columns[:, hits], match[:, hits]
        raw = np.empty(true.shape)
        for fitted, judged in folds:
            raw[judged] = _fit(own[fitted], true[fitted], directions).probability(own[judged])
        honest = np.empty(true.shape)
        for fitted, judged in folds:
            mapped = _recalibrate(raw[fitted], true[fitted], recalibration)
            honest[judged] = mapped(raw[judged])
        whole = _fit(own, true, directions)
        parts.append((whole, _recalibrate(raw, true, recalibration), honest))
    (first, first_map, one), (later, later_map, rest) = parts
    model = ConfidenceModel(tuple(names), first, later, first_map, later_map)
    return FittedConfidence(model, np.concatenate([one, rest], axis=1))


def _folds(
    groups: NDArray[np.generic],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    yield from GroupKFold(min(FOLDS, len(np.unique(groups)))).split(groups, groups=groups)


def _fit(columns: Numbers, match: NDArray[np.bool_], directions: Sequence[int]) -> Logistic:
    return fit_logistic(
        columns.reshape(-1, columns.shape[-1]), match.reshape(-1), directions=directions
    )


def _recalibrate(probability: Numbers, match: NDArray[np.bool_], kind: str) -> Recalibration:
    return fit_recalibration(probability.reshape(-1), match.reshape(-1), kind=kind)
