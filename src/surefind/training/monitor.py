"""Detect divergence, collapse and empty batches in training."""

import logging
import math
from collections import Counter
from typing import Any

from torch import Tensor
from torch.nn.functional import normalize

from surefind.embeddings import Embeddings
from surefind.errors import SurefindError

log = logging.getLogger("surefind")


class TrainingStopped(SurefindError):
    """Training was stopped; the last saved model and state are intact."""


ADVICE = {
    "the loss is not finite": "lower optimiser.lr, or set optimiser.clip = 1.0",
    "the gradient is not finite": "lower optimiser.lr, or set optimiser.clip = 1.0",
    "all images are embedded at one point": "lower optimiser.lr, or start from pretrained weights",
    "the variance has collapsed to its floor": "raise loss.kl_scale or lower optimiser.variance_lr",
    "the variance explodes": "lower optimiser.variance_lr and optimiser.lr",
    "the loss is far above where it started": "lower optimiser.lr, or set optimiser.clip = 1.0",
    "no batch has a triplet": "check the labels: a class needs two images, and there must be two "
    "classes (surefind check)",
}
MAX_SPREAD = 100.0  # D times the variance, in squared lengths of a mean
AT_ONCE = ("the loss is not finite", "the gradient is not finite")


class TrainingMonitor:
    """Warn if a symptom lasts a few steps; stop training if it lasts `patience` steps."""

    def __init__(self, *, floor: float, patience: int = 10) -> None:
        self.floor, self.patience = floor, patience
        self.warns_after = max(1, patience // 3)
        self.first_loss: float | None = None
        self.lasting: Counter[str] = Counter()

    def state_dict(self) -> dict[str, Any]:
        return {"first_loss": self.first_loss, "lasting": dict(self.lasting)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.first_loss, self.lasting = state["first_loss"], Counter(state["lasting"])

    def check_step(self, *, loss: Tensor, gradient: Tensor, embeddings: Embeddings, step: int) -> None:
        """Raise TrainingStopped if the loss, gradient or embeddings show a lasting problem."""
        value = float(loss)
        if self.first_loss is None and math.isfinite(value):
            self.first_loss = value
        mean, first = embeddings.mean.detach(), self.first_loss
        unit = normalize(mean, dim=1)
        var = float(embeddings.var.median())
        largest = MAX_SPREAD * max(1.0, float(mean.square().sum(1).mean()))
        found = {
            "the loss is not finite": not math.isfinite(value),
            "the gradient is not finite": not math.isfinite(float(gradient)),
            "all images are embedded at one point": len(unit) > 1 and float(unit.var(dim=0).sum()) < 1e-4,
            "the loss is far above where it started": first is not None and value > 1 + 5 * abs(first),
            "the variance has collapsed to its floor": self.floor > 0 and var < 1.01 * self.floor,
            "the variance explodes": var * embeddings.dim > largest,
        }
        self.count([symptom for symptom, is_there in found.items() if is_there], step)

    def count(self, seen: list[str], step: int) -> None:
        """Count the symptoms of a step; raise TrainingStopped if one lasts."""
        self.lasting = Counter({symptom: self.lasting[symptom] + 1 for symptom in seen})
        for symptom, steps in self.lasting.items():
            if symptom in AT_ONCE or steps >= self.patience:
                raise TrainingStopped(f"step {step}: {symptom}", fix=ADVICE[symptom])
            if steps == self.warns_after:
                log.warning("step %d: %s; %s", step, symptom, ADVICE[symptom])
