"""An evaluation as a few tables on a terminal."""

from rich.console import Console
from rich.table import Table

from surefind.metrics.bootstrap import Estimate
from surefind.reports.names import ranking_name, signal_name
from surefind.reports.result import EvalResult, Ranking


def print_result(result: EvalResult, console: Console | None = None) -> None:
    """What there is to know, most trustworthy first."""
    console = console or Console()
    about = result.about
    console.print(f"{about.data_name} ({about.part}): {about.protocol}")
    for exclusion in result.exclusions:
        console.print(f"left out: {exclusion.count:,} images: {exclusion.reason}", markup=False)
    console.print(_retrieval(result))
    for name, ranking in result.rankings.items():
        console.print(_signals(name, ranking))
    if about.bars_auroc is not None:
        console.print(
            f"foreign images told by their black bars alone: AUROC {about.bars_auroc:.3f}"
        )


def _retrieval(result: EvalResult) -> Table:
    ks = [str(k) for k in result.about.ks]
    table = Table(
        "ranked by",
        *(f"{what}@{k}" for what in ("R", "mAP") for k in ks),
        "MAP@R",
        *(f"ECE@{k}" for k in ks),
        title="retrieval, with 95 % intervals over queries; ECE by equal width, as the paper",
    )
    for name, ranking in result.rankings.items():
        ece = ranking.ece.get("equal_width", {})
        table.add_row(
            ranking_name(name),
            *(_text(ranking.recall[k]) for k in ks),
            *(_text(ranking.mean_ap[k]) for k in ks),
            _text(ranking.map_at_r),
            *(_text(ece.get(k)) for k in ks),
        )
    return table


def _signals(name: str, ranking: Ranking) -> Table:
    table = Table(
        "uncertainty",
        "AUROC wrong",
        "AURC",
        "risk at 80 %",
        "ECE fitted",
        "AUROC foreign",
        title=f"who knows when the top hit is wrong; ranked by {ranking_name(name)}",
    )
    for signal, found in ranking.signals.items():
        table.add_row(
            signal_name(signal),
            _text(found.auroc),
            _text(found.aurc),
            _text(found.risk_at["0.8"]),
            _text(found.ece),
            _text(found.ood.auroc if found.ood else None),
        )
    return table


def _text(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    return f"{estimate.value:.3f} [dim]{estimate.low:.3f}-{estimate.high:.3f}[/]"
