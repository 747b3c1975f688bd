"""Queries to measure: signals with and without ties, and resamples written out row by row."""

import pytest
import torch

from surefind.metrics import resample_counts

CASES = ["distinct", "ties", "few values", "two queries"]


class Queries:
    """A signal, which queries are positive, and weights of a few resamples."""

    def __init__(self, case: str, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        n = 2 if case == "two queries" else 97
        self.signal = torch.randn(n, generator=generator)
        if case != "distinct":
            self.signal = (self.signal * {"ties": 8, "few values": 1}.get(case, 8)).round()
        noise = torch.randn(n, generator=generator)
        self.positive = self.signal + 2 * noise > 0.5
        self.positive[:2] = torch.tensor([True, False])
        self.outcome = torch.rand(n, generator=generator, dtype=torch.float64)
        self.confidence = torch.sigmoid(self.signal.double())
        self.weights = resample_counts(n, 5, seed=seed)

    def written_out(self, *values: torch.Tensor) -> list[list[torch.Tensor]]:
        """For each resample, the values with every row repeated as often as it was drawn."""
        return [[value.repeat_interleave(row.long()) for value in values] for row in self.weights]


@pytest.fixture(params=CASES)
def queries(request: pytest.FixtureRequest) -> Queries:
    return Queries(request.param)


@pytest.fixture
def distinct() -> Queries:
    return Queries("distinct")
