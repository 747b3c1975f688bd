"""Upgrades of small sets of vectors, made once."""

from collections.abc import Iterator

import pytest
import torch
from noisy_vectors import NoisyVectors, noisy_vectors

import surefind as sf
from surefind.confidence import calibrate as calibrating

STEPS = 20  # of learning the variance of vectors: enough for so few


@pytest.fixture(scope="session", autouse=True)
def quick() -> Iterator[None]:
    """Vectors this small gain nothing from a second thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrating, "STEPS", STEPS)
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def known() -> NoisyVectors:
    """What upgrades are made with."""
    return noisy_vectors(seed=0)


@pytest.fixture(scope="session")
def fresh() -> NoisyVectors:
    """Of other classes."""
    return noisy_vectors(seed=100)


@pytest.fixture(scope="session")
def upgrade(known: NoisyVectors) -> sf.Upgrade:
    return sf.calibrate(known.vectors, known.labels, targets=sf.CalibrationTargets(precision=0.8))


@pytest.fixture(scope="session")
def other(known: NoisyVectors) -> sf.Upgrade:
    """Of the same vectors, but its heads began elsewhere."""
    return sf.calibrate(known.vectors, known.labels, seed=1)


@pytest.fixture(scope="session")
def plain(known: NoisyVectors) -> sf.Upgrade:
    """Without a variance."""
    return sf.calibrate(known.vectors, known.labels, learn_variance=False)
