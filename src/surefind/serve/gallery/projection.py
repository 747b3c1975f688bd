"""Embeddings on a plane, where those that are alike lie near each other."""

import numpy as np
from numpy.typing import NDArray

PERPLEXITY = 30.0  # neighbours that each image keeps near; the usual choice
FEWEST = 10  # images that t-SNE has something to say about
WIDEST = 50  # dimensions that t-SNE looks at: more cost time and show nothing new
START = 1e-4  # spread of the first positions: small, so that the neighbours decide

Numbers = NDArray[np.float64]


def project(means: NDArray[np.float32], *, seed: int = 0) -> NDArray[np.float32]:
    """Positions of embeddings (n, D) in the unit square, (n, 2): t-SNE, or PCA where few.

    Works on one core. Equal input gives equal output.
    """
    apart = _centred(means)
    spread = float(np.abs(apart).max(initial=0.0))
    if not spread:
        return np.full((len(means), 2), 0.5, dtype=np.float32)
    plain = _principal(apart / spread, WIDEST)
    return _in_unit_square(plain[:, :2] if len(means) < FEWEST else _tsne(plain, seed=seed))


def method_of(count: int) -> str:
    """What `project` does with so many images, in words."""
    return "PCA" if count < FEWEST else "t-SNE"


def _centred(means: NDArray[np.float32]) -> Numbers:
    wide = means.astype(np.float64)
    return wide - wide.mean(axis=0) if len(wide) else wide


def _principal(apart: Numbers, most: int) -> Numbers:
    """The directions of largest variance, (n, at least 2), without dividing by what may be zero.

    Each is turned so that its largest entry is positive: the solver's own signs mean nothing.
    """
    _, directions = np.linalg.eigh(apart.T @ apart)
    directions = directions[:, ::-1][:, :most]
    largest = np.abs(directions).argmax(axis=0)
    directions = directions * np.sign(directions[largest, np.arange(directions.shape[1])])
    found = apart @ directions
    return np.pad(found, [(0, 0), (0, max(0, 2 - found.shape[1]))])


def _tsne(plain: Numbers, *, seed: int) -> Numbers:
    from sklearn.manifold import TSNE  # type: ignore[import-untyped]
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Only OpenMP, which keeps such a limit per thread: one on BLAS would slow every search.
    with threadpool_limits(1, user_api="openmp"):
        found = TSNE(
            perplexity=min(PERPLEXITY, (len(plain) - 1) / 3),
            init=(plain[:, :2] * (START / plain[:, 0].std())).astype(np.float32),
            random_state=seed,
        ).fit_transform(plain.astype(np.float32))
    return np.asarray(found, dtype=np.float64)


def _in_unit_square(positions: Numbers) -> NDArray[np.float32]:
    """Both axes by the same factor, in the middle: distances keep their proportions."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    width = (high - low).max() or 1.0
    placed: Numbers = 0.5 + (positions - (low + high) / 2) / width
    return placed.clip(0, 1).astype(np.float32)
