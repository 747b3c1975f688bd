"""The few numbers to look at first."""

from collections.abc import Iterator
from dataclasses import dataclass

from surefind.metrics.bootstrap import Estimate
from surefind.reports.html.best import Measure, best_signal, main_ranking, ood_auroc
from surefind.reports.html.numbers import decimal, interval, percent
from surefind.reports.result import EvalResult, Signal


@dataclass(frozen=True)
class Tile:
    """One number: what it is, how sure it is, whose it is."""

    title: str
    text: str
    interval: str
    note: str
    beside: str = ""  # the training-free one, to compare


def tiles(result: EvalResult) -> list[Tile]:
    ranking = main_ranking(result)
    found: list[Tile] = []
    if recall := ranking.recall.get("1"):
        found.append(_share("R@1", recall, "queries whose top hit is right"))
    if ranking.mean_ap:
        k = "5" if "5" in ranking.mean_ap else max(ranking.mean_ap, key=int)
        found.append(_share(f"mAP@{k}", ranking.mean_ap[k], f"how well the first {k} are ordered"))
    found.extend(_signal_tiles(ranking.signals))
    return found


def _share(title: str, estimate: Estimate, note: str) -> Tile:
    return Tile(title, f"{percent(estimate.value)} %", interval(estimate, percent), note)


def _signal_tiles(signals: dict[str, Signal]) -> Iterator[Tile]:
    measures: dict[str, tuple[Measure, bool]] = {  # and whether low is good
        "AUROC of wrong top hits": (lambda signal: signal.auroc, False),
        "AURC, lower is better": (lambda signal: signal.aurc, True),
        "AUROC of foreign queries": (ood_auroc, False),
    }
    for title, (measure, lowest) in measures.items():
        learned = best_signal(signals, measure, learned=True, lowest=lowest)
        free = best_signal(signals, measure, learned=False, lowest=lowest)
        shown = learned or free
        if shown is None:
            continue
        yield Tile(
            title,
            decimal(shown.estimate.value),
            interval(shown.estimate, decimal),
            f"{'learned' if learned else 'training-free'}: {shown.name}",
            f"training-free: {decimal(free.estimate.value)} {interval(free.estimate, decimal)}, "
            f"{free.name}"
            if learned and free
            else "",
        )
