"""The signal that does best, learned or training-free."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isnan

from surefind.metrics.bootstrap import Estimate
from surefind.reports.names import is_learned, signal_name
from surefind.reports.result import EvalResult, Ranking, Signal

RANKING = "means"  # the order that headlines and galleries speak of; every model has it
Measure = Callable[[Signal], Estimate | None]


@dataclass(frozen=True)
class Winner:
    """A signal and what it reached."""

    signal: str
    estimate: Estimate

    @property
    def name(self) -> str:
        return signal_name(self.signal)


def ood_auroc(signal: Signal) -> Estimate | None:
    return signal.ood.auroc if signal.ood else None


def main_ranking(result: EvalResult) -> Ranking:
    return result.rankings[RANKING]


def best_signal(
    signals: Mapping[str, Signal],
    measure: Measure,
    *,
    learned: bool | None = None,
    lowest: bool = False,
) -> Winner | None:
    """Of the learned or the training-free ones, or of all; None where there is none."""
    found = _measured(signals, measure, learned)
    sign = -1 if lowest else 1
    return max(found, key=lambda winner: sign * winner.estimate.value, default=None)


def _measured(
    signals: Mapping[str, Signal], measure: Measure, learned: bool | None
) -> Iterable[Winner]:
    for name, signal in signals.items():
        estimate = measure(signal)
        if estimate is None or isnan(estimate.value):
            continue
        if learned is None or is_learned(name) == learned:
            yield Winner(name, estimate)
