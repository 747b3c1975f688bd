"""How far a run has come."""

from dataclasses import dataclass, field
from typing import Any, Self

from surefind.images.loading import Rejection

NAN = float("nan")


@dataclass
class Progress:
    """What changes from step to step, besides weights, optimiser and cache."""

    phase: str = "main"
    step: int = 0  # done in this phase
    best: float = NAN  # of what models are kept by
    best_step: int = 0
    recall: float = NAN  # R@1 of the model kept
    start_recall: float = NAN
    empty_steps: int = 0  # in a row, without a triplet that violates its margin
    rejected: dict[str, Rejection] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for the state on disk."""
        rejected = [tuple(rejection) for rejection in self.rejected.values()]
        return {**vars(self), "rejected": rejected}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        rejected = [Rejection(*row) for row in values["rejected"]]
        return cls(**{**values, "rejected": {r.path: r for r in rejected}})
