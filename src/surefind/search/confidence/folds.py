"""The folds of cross-fitting: whole classes, so that no class is judged by a fit to itself."""

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold  # type: ignore[import-untyped]

FOLDS = 5


def folds_of(groups: NDArray[np.generic]) -> NDArray[np.int64]:
    """Number of each query's fold, (Q,); folds are about equally large.

    >>> folds_of(np.array([7, 7, 3, 3, 9, 9]))
    array([1, 1, 2, 2, 0, 0])
    """
    fold = np.empty(len(groups), np.int64)
    splits = GroupKFold(min(FOLDS, len(np.unique(groups)))).split(groups, groups=groups)
    for number, (_, judged) in enumerate(splits):
        fold[judged] = number
    return fold
