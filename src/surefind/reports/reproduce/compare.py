"""The paper's figures and ours, brought together."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any, NamedTuple

from surefind.metrics import PairedTest
from surefind.metrics.bootstrap import Estimate
from surefind.reports.reproduce.about import facts, notes, tell_data
from surefind.reports.reproduce.paired import against
from surefind.reports.reproduce.paper import paper_figures, paper_remarks
from surefind.reports.reproduce.plan import Plan
from surefind.reports.reproduce.run import RowResult
from surefind.reports.result import Ranking, Signal
from surefind.reports.signals import TRAINING_FREE

KS = ("1", "5", "10")
ECE = "equal_width"  # the definition that agrees with the paper's tables


class Figure(NamedTuple):
    """A metric over seeds: means of the values and of the interval's ends."""

    value: float
    low: float
    high: float
    std: float | None  # between seeds, from two on


@dataclass(frozen=True)
class Doubts:
    """How well doubt is placed; None where a model or the data has no such thing."""

    auroc: Figure | None  # of "the top hit is wrong", by query_var
    aurc: Figure | None
    free: str  # the training-free signal with the best AUROC on these queries
    free_auroc: Figure | None
    free_aurc: Figure | None
    ood: Figure | None  # AUROC of "the query is foreign", by pair_var
    free_ood: Figure | None  # by nearest_distance
    difficulty: Figure | None  # rank correlation of query_var with known corruption


@dataclass(frozen=True)
class ComparedRow:
    """One line of the table, twice."""

    title: str
    recipe: str
    seeds: int
    paper: dict[str, float]  # by column
    ours: dict[str, Figure]
    doubts: Doubts
    against: PairedTest | None = None  # the first row, in R@1
    zero_shot: tuple[tuple[dict[str, Figure], Doubts], ...] = ()  # for each other data
    footnotes: dict[str, int] = field(default_factory=dict)  # of the paper's figures, by column


@dataclass(frozen=True)
class Comparison:
    """Everything a table shows."""

    name: str
    facts: tuple[str, ...]  # scale, data and command: what to know before reading
    rows: tuple[ComparedRow, ...]
    footnotes: tuple[str, ...]  # numbered from 1
    notes: tuple[str, ...]
    zero_shot: tuple[str, ...] = ()  # the other data, in words

    def as_dict(self) -> dict[str, Any]:
        whole: dict[str, Any] = _plain(asdict(self))
        return whole


def compare(plan: Plan, results: Sequence[RowResult]) -> Comparison:
    """The table of a plan's results."""
    footnotes: list[str] = []
    rows: list[ComparedRow] = []
    for found in results:
        marks: dict[str, int] = {}
        for remark in paper_remarks(plan.dataset, plan.backbone, found.row.paper):
            footnotes.append(remark.text)
            marks |= dict.fromkeys(remark.columns, len(footnotes))
        rankings = [result.rankings[found.row.ranking] for result in found.results]
        rows.append(
            ComparedRow(
                found.row.title,
                found.recipe,
                len(rankings),
                paper_figures(plan.dataset, plan.backbone, found.row.paper),
                _figures(rankings),
                _doubts(rankings),
                against(plan, found.row, plan.rows[0]) if rows else None,
                _zero_shot(found),
                marks,
            )
        )
    first = results[0]
    others = tuple(result.about for result in first.zero_shot[0]) if first.zero_shot else ()
    return Comparison(
        plan.name,
        facts(plan, first.results[0].about),
        tuple(rows),
        tuple(footnotes),
        notes(plan, first.results[0].about),
        tuple(map(tell_data, others)),
    )


def over_seeds(estimates: Sequence[Estimate | None]) -> Figure | None:
    """None where a seed has no estimate."""
    known = [estimate for estimate in estimates if estimate is not None]
    if not known or len(known) < len(estimates):
        return None
    values = [estimate.value for estimate in known]
    return Figure(
        fmean(values),
        fmean(estimate.low for estimate in known),
        fmean(estimate.high for estimate in known),
        stdev(values) if len(values) > 1 else None,
    )


def _figures(rankings: Sequence[Ranking]) -> dict[str, Figure]:
    measures: dict[str, Callable[[Ranking], dict[str, Estimate]]] = {
        "R": lambda ranking: ranking.recall,
        "M": lambda ranking: ranking.mean_ap,
        "ECE": lambda ranking: ranking.ece.get(ECE, {}),
    }
    figures = {
        f"{measure}@{k}": over_seeds([of(ranking).get(k) for ranking in rankings])
        for measure, of in measures.items()
        for k in KS
    }
    return {column: figure for column, figure in figures.items() if figure is not None}


def _zero_shot(found: RowResult) -> tuple[tuple[dict[str, Figure], Doubts], ...]:
    by_data = zip(*found.zero_shot, strict=True)  # for each data, one result for each seed
    rankings = [[result.rankings[found.row.ranking] for result in results] for results in by_data]
    return tuple((_figures(of_data), _doubts(of_data)) for of_data in rankings)


def _doubts(rankings: Sequence[Ranking]) -> Doubts:
    def auroc(name: str) -> Figure | None:
        return _of_signal(rankings, name, lambda signal: signal.auroc)

    def aurc(name: str) -> Figure | None:
        return _of_signal(rankings, name, lambda signal: signal.aurc)

    def ood(name: str) -> Figure | None:
        return _of_signal(rankings, name, lambda s: None if s.ood is None else s.ood.auroc)

    known = {name: figure for name in TRAINING_FREE if (figure := auroc(name)) is not None}
    free = max(known, key=lambda name: known[name].value, default="")
    return Doubts(
        auroc("query_var"),
        aurc("query_var"),
        free,
        known.get(free),
        aurc(free),
        ood("pair_var"),
        ood("nearest_distance"),
        _of_signal(rankings, "query_var", lambda signal: signal.difficulty),
    )


def _of_signal(
    rankings: Sequence[Ranking], name: str, of: Callable[[Signal], Estimate | None]
) -> Figure | None:
    signals = [ranking.signals.get(name) for ranking in rankings]
    return over_seeds([None if signal is None else of(signal) for signal in signals])


def _plain(value: Any) -> Any:
    """Figures by their names, for JSON."""
    if isinstance(value, Figure | PairedTest):
        return _plain(value._asdict())
    if isinstance(value, Estimate):
        return asdict(value)
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value
