"""Vectors of some other model, in which one can see how vague each is."""

from typing import NamedTuple

import numpy as np

DIM = 16


class NoisyVectors(NamedTuple):
    """Those of one class beside each other."""

    vectors: np.ndarray  # (N, D)
    labels: np.ndarray  # (N,)
    noise: np.ndarray  # (N,)


def noisy_vectors(
    classes: int = 30, per_class: int = 12, *, seed: int = 0, noise: tuple[float, float] = (0.2, 1.6)
) -> NoisyVectors:
    """The noisier, the shorter, as if most of a picture were blurred away.

    So vague vectors lie close to one another and are near to something wrong: the first hit is
    right in 60 to 75 % of queries, and its distance hardly says in which.
    """
    random = np.random.default_rng(seed)
    labels = np.arange(classes).repeat(per_class)
    level = random.uniform(*noise, (len(labels), 1))
    centres = random.normal(size=(classes, DIM))[labels]
    vectors = (centres + level * random.normal(size=centres.shape)) / (1 + level**2)
    return NoisyVectors(vectors.astype(np.float32), labels, level[:, 0])
