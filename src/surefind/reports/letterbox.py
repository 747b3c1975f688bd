"""Black bars at the edges of images: what they alone give away about a data set.

Where one data set is letterboxed and another is not, any encoder can tell them apart without
looking at a picture. An out-of-distribution figure means something only above this baseline.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.model_selection import (  # type: ignore[import-untyped]
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

from surefind.images.decode import ImageRejected, decode

BLACK = 8  # the brightest channel of a pixel in a bar
STRAY = 24  # what JPEG makes of a few of them
STRAY_SHARE = 0.02  # of the pixels of one row or column
LEAST = 10  # images of each kind, for a figure that means anything


def bar_widths(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the share of the height at top and bottom, of the width at left and right, in black.

    An image (H, W, 3) that is black throughout is all bar, 1 on every side.

    >>> picture = np.full((8, 4, 3), 200, np.uint8)
    >>> picture[:2] = 0
    >>> bar_widths(picture).tolist()
    [0.25, 0.0, 0.0, 0.0]
    """

    def black_lines(brightest: NDArray[np.uint8]) -> NDArray[np.bool_]:
        strays = (brightest > BLACK).mean(axis=1)
        black: NDArray[np.bool_] = (strays <= STRAY_SHARE) & (brightest.max(axis=1) <= STRAY)
        return black

    brightest = pixels.max(axis=2)
    rows, columns = black_lines(brightest), black_lines(brightest.T)
    sides = (rows, rows[::-1], columns, columns[::-1])
    return np.array([np.logical_and.accumulate(black).mean() for black in sides])


def bars_auroc(
    own: Sequence[Path], foreign: Sequence[Path], *, at_most: int = 1000, seed: int = 0
) -> float:
    """Return how well the widths of their bars alone separate foreign images from own ones.

    The mean AUROC over five folds of a logistic regression on the widths and their squares, of at
    most so many images of each kind. Unreadable images are skipped; nan when fewer than 10 of
    either kind can be read.
    """
    random = np.random.default_rng(seed)

    def widths_of(files: Sequence[Path]) -> NDArray[np.float64]:
        chosen = [files[number] for number in random.permutation(len(files))[:at_most]]
        with ThreadPoolExecutor(4) as pool:
            found = [each for each in pool.map(_widths_of_file, chosen) if each is not None]
        return np.array(found).reshape(-1, 4)

    ours, theirs = widths_of(own), widths_of(foreign)
    if min(len(ours), len(theirs)) < LEAST:
        return nan
    widths = np.concatenate([ours, theirs])
    aurocs = cross_val_score(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        np.hstack([widths, widths**2]),
        np.arange(len(widths)) >= len(ours),
        scoring="roc_auc",
        cv=StratifiedKFold(5, shuffle=True, random_state=seed),
    )
    return float(aurocs.mean())


def _widths_of_file(file: Path) -> NDArray[np.float64] | None:
    with suppress(ImageRejected):
        return bar_widths(decode(file).permute(1, 2, 0).numpy())
    return None
