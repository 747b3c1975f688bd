"""An evaluation as two tables that fit a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table

from surefind.metrics.bootstrap import Estimate
from surefind.reports.names import ranking_name, signal_name
from surefind.reports.result import EvalResult, Ranking

MAIN = "means"  # the ranking whose signals are shown; the report has both


def print_result(result: EvalResult, console: Console | None = None) -> None:
    """Retrieval in every ranking, and every signal; values with half of their 95 % interval."""
    console = console or Console()
    about = result.about
    console.print(f"{about.data_name} ({about.part}): {about.protocol}", highlight=False)
    for exclusion in result.exclusions:
        console.print(f"left out: {exclusion.count:,} images, {exclusion.reason}", markup=False)
    console.print(_retrieval(result))
    console.print(_signals(result.rankings[MAIN]))
    if about.bars_auroc is not None:
        console.print(f"foreign images are told by black bars alone: AUROC {about.bars_auroc:.3f}")


def _retrieval(result: EvalResult) -> Table:
    rankings = result.rankings
    over = "classes" if result.about.resampled_classes else "queries"
    table = _table(f"95 % intervals over {over}", *(ranking_name(name) for name in rankings))
    rows: dict[str, list[Estimate | None]] = {}
    for name, group in (("R", "recall"), ("mAP", "mean_ap"), ("P", "precision")):
        for k in map(str, result.about.ks):
            rows[f"{name}@{k}"] = [getattr(ranking, group)[k] for ranking in rankings.values()]
    rows["MAP@R"] = [ranking.map_at_r for ranking in rankings.values()]
    for definition in rankings[MAIN].ece:
        for k in map(str, result.about.ks):
            found = [ranking.ece[definition][k] for ranking in rankings.values()]
            rows[f"ECE@{k}, {definition}"] = list(found)
    for name, estimates in rows.items():
        table.add_row(name, *(_interval(estimate) for estimate in estimates))
    return table


def _signals(ranking: Ranking) -> Table:
    table = _table("who knows?", "AUROC wrong", "AURC", "ECE, fitted", "AUROC foreign")
    for name, signal in ranking.signals.items():
        found = (
            signal.auroc,
            signal.aurc,
            signal.ece,
            signal.ood.auroc if signal.ood else None,
        )
        table.add_row(signal_name(name), *(_half(estimate) for estimate in found))
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1))
    table.add_column(first)
    for other in others:
        table.add_column(other, justify="right")
    return table


def _interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    return f"{estimate.value:.3f} [dim]{estimate.low:.3f} to {estimate.high:.3f}[/]"


def _half(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    half = max(estimate.high - estimate.value, estimate.value - estimate.low)
    return f"{estimate.value:.3f}[dim]±{half:.3f}[/]"
