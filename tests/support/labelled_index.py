"""A small index of labelled vectors, and queries: of its classes, of others, and copies."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from noisy_vectors import noisy_vectors

import surefind as sf
from surefind.engines.base import Space
from surefind.vectors.reader import as_points

CLASSES, KNOWN = 30, 25  # of which the index has
COPIES = 4


class Asked(NamedTuple):
    vectors: np.ndarray
    labels: list[str]

    def save(self, path: Path) -> None:
        np.savez(path, vectors=self.vectors, labels=self.labels)


def make_index(folder: Path, *, precision: float = 0.7, calibrate: bool = True) -> sf.Index:
    """Every second vector of the known classes."""
    made = noisy_vectors(CLASSES, 16, seed=3, noise=(0.2, 1.1))
    rows = [row for row in range(0, len(made.labels), 2) if made.labels[row] < KNOWN]
    space = Space("gaussian", made.vectors.shape[1], "mean")
    index = sf.Index.create_empty(folder, space, fingerprint="f" * 64)
    index.add_embeddings(
        as_points(made.vectors[rows]),
        [f"item {row}" for row in rows],
        metadata=[{"label": f"thing {made.labels[row]}"} for row in rows],
    )
    if calibrate:
        index.calibrate_itself(targets=sf.CalibrationTargets(precision=precision))
    return index


def make_queries(*, known_only: bool = False) -> Asked:
    """The other vectors; then copies of indexed ones, and the first query twice."""
    made = noisy_vectors(CLASSES, 16, seed=3, noise=(0.2, 1.1))
    rows = [*range(1, len(made.labels), 2), *range(0, 2 * COPIES, 2), 1]
    rows = [row for row in rows if made.labels[row] < KNOWN or not known_only]
    return Asked(made.vectors[rows], [f"thing {made.labels[row]}" for row in rows])
