"""From an uncertainty to a probability, judged only on queries it was not fitted to."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.model_selection import GroupKFold  # type: ignore[import-untyped]

FOLDS = 5
ENOUGH = 4000  # queries to fit two numbers to

Values = NDArray[np.float64]


def crossfit_probability(
    uncertainty: Values,
    correct: NDArray[np.bool_],
    groups: NDArray[np.generic],
    *,
    platt: bool = False,
) -> Values:
    """P(the top hit is right) for each query, from a fit to the queries of other groups.

    The fit is logistic in the logit of the rank among the fitted queries, so that a monotone map
    of the uncertainty changes nothing; with `platt`, in the uncertainty itself (Platt scaling, the
    usual thing to do with a cosine). Of very many queries only some are fitted to. Where a fit
    saw only right or only wrong ones, it says their share, (right + 1/2) / (n + 1). With a single
    group nobody is left to fit to: nan.
    """
    probability = np.full(len(uncertainty), np.nan)
    folds = min(FOLDS, len(np.unique(groups)))
    if folds < 2:
        return probability
    for fitted, judged in GroupKFold(folds).split(uncertainty, groups=groups):
        some = fitted[:: math.ceil(len(fitted) / ENOUGH)]
        probability[judged] = _fit_and_judge(
            uncertainty[some], correct[some], uncertainty[judged], platt=platt
        )
    return probability


def _fit_and_judge(
    uncertainty: Values, correct: NDArray[np.bool_], judged: Values, *, platt: bool
) -> Values:
    right, n = int(correct.sum()), len(correct)
    if right in (0, n):
        return np.full(len(judged), (right + 0.5) / (n + 1))
    scale = partial(_standardised if platt else _logit_rank, np.sort(uncertainty))
    model = LogisticRegression(C=1e3).fit(scale(uncertainty), correct)
    chosen: Values = model.predict_proba(scale(judged))[:, 1]
    return chosen


def _logit_rank(known: Values, values: Values) -> Values:
    """Half way between the sides on which a tie could go; never 0 or 1. (n, 1)"""
    sides = (np.searchsorted(known, values, side=side) for side in ("left", "right"))
    rank = (sum(sides) / 2 + 0.5) / (len(known) + 1)
    return np.log(rank / (1 - rank))[:, None]


def _standardised(known: Values, values: Values) -> Values:
    """With mean 0 and variance 1 for the known ones, so that the penalty weighs nothing. (n, 1)"""
    standard: Values = (values - known.mean()) / (known.std() or 1.0)
    return standard[:, None]
