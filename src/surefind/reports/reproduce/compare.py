"""The paper's figures and ours, brought together."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch

from surefind.metrics import PairedTest, paired_test
from surefind.metrics.bootstrap import Estimate
from surefind.reports.reproduce.paper import (
    ABOUT,
    ABOUT_ALL,
    BACKBONES,
    TEST_QUERIES,
    TITLES,
    TRAINED_ON,
    paper_figures,
    paper_remarks,
)
from surefind.reports.reproduce.plan import MC_DROPOUT_HEADS, ROWS, Plan, Row
from surefind.reports.reproduce.run import RowResult
from surefind.reports.result import About, QueryTable, Ranking
from surefind.reports.signals import TRAINING_FREE

KS = ("1", "5", "10")
ECE = "equal_width"  # the definition that agrees with the paper's tables
INTERVALS = (
    "In brackets the 95 % interval, which does not cover chance in training: {drawn} are "
    "resampled. With several seeds: means of the values and of the interval's ends, and ± the "
    "standard deviation between seeds."
)
AGAINST = (
    "The last column compares R@1 with the first row's on the same queries (share of seeds that "
    "are right): the difference, its interval, and p of a paired test that flips the signs of "
    "{drawn}."
)
DROPOUT_IN_HEAD = (
    "Triplet (MC=50) has its dropout in the head, since this backbone has none between its layers; "
    "the paper's has it in DenseNet-161."
)
BEST_FREE = (
    "Training-free is the best by AUROC of nearest distance, distance ratios and cosine, all of "
    "mean distances, chosen on the queries it is shown for: in its favour."
)


@dataclass(frozen=True)
class Figure:
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
        """Figures by their names, for JSON."""
        whole = asdict(self)
        for row in whole["rows"]:
            row["against"] = row["against"] and row["against"]._asdict()
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
        elsewhere = [  # for each other data, one for each seed
            [result.rankings[found.row.ranking] for result in of_data]
            for of_data in zip(*found.zero_shot, strict=True)
        ]
        rows.append(
            ComparedRow(
                found.row.title,
                found.recipe,
                len(rankings),
                paper_figures(plan.dataset, plan.backbone, found.row.paper),
                _figures(rankings),
                _doubts(rankings),
                against(plan, found.row, plan.rows[0]) if rows else None,
                tuple((_figures(of_data), _doubts(of_data)) for of_data in elsewhere),
                marks,
            )
        )
    first = results[0]
    about = first.results[0].about
    others = [result.about for result in first.zero_shot[0]] if first.zero_shot else []
    return Comparison(
        plan.name,
        _facts(plan, about),
        tuple(rows),
        tuple(footnotes),
        _notes(plan, about),
        tuple(
            f"{_short(other.data)}, {other.queries:,} queries, "
            + (f"{other.classes} classes" if other.classes else "matches by position")
            for other in others
        ),
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


def _doubts(rankings: Sequence[Ranking]) -> Doubts:
    def get(name: str, measure: str) -> Figure | None:
        found = [ranking.signals.get(name) for ranking in rankings]
        if measure == "ood":
            return over_seeds([s.ood.auroc if s and s.ood else None for s in found])
        return over_seeds([getattr(signal, measure) if signal else None for signal in found])

    known = {name: figure for name in TRAINING_FREE if (figure := get(name, "auroc"))}
    free = max(known, key=lambda name: known[name].value, default="")
    return Doubts(
        get("query_var", "auroc"),
        get("query_var", "aurc"),
        free,
        known.get(free),
        get(free, "aurc"),
        get("pair_var", "ood"),
        get("nearest_distance", "ood"),
        get("query_var", "difficulty"),
    )


def against(plan: Plan, row: Row, other: Row) -> PairedTest | None:
    """R@1 of a row less that of the other, query by query; None without their tables.

    Queries of one label are resampled and flipped together.
    """
    first, second = _right(plan, row), _right(plan, other)
    if first is None or second is None or first.keys() != second.keys():
        return None
    ours, theirs = (
        torch.tensor([values[query] for query in first], dtype=torch.float64)
        for values in (first, second)
    )
    labels = [label or name for name, label in first]  # no label: matches are by position
    groups = torch.from_numpy(np.unique(labels, return_inverse=True)[1])
    return paired_test(ours, theirs, groups=groups)


def _right(plan: Plan, row: Row) -> dict[tuple[str, str], float] | None:
    """For each query by name and label, the share of seeds whose top hit is right."""
    shares: list[dict[tuple[str, str], bool]] = []
    for seed in range(plan.seeds_of(row)):
        path = plan.evaluation(row, seed) / "queries.csv"
        if not path.is_file():
            return None
        queries = QueryTable.read(path).own()
        named = zip(queries["id"].tolist(), queries["label"].tolist(), strict=True)
        shares.append(dict(zip(named, queries[f"{row.ranking}.match_1"].tolist(), strict=True)))
    if any(share.keys() != shares[0].keys() for share in shares):
        return None  # one of them gave images the same vector, which then count as copies
    return {query: float(np.mean([share[query] for share in shares])) for query in shares[0]}


def _facts(plan: Plan, about: About) -> tuple[str, ...]:
    """Before the table."""
    lines = [_scale(plan), _data(plan, about)]
    if about.foreign:
        told = f"Foreign queries: {about.foreign_queries:,}, {_short(about.foreign)}."
        if about.bars_auroc is not None:
            told += f" Their black bars alone give them away with AUROC {about.bars_auroc:.3f}."
        lines.append(told)
    return (*lines, f"Made by `{_command(plan)}`.")


def _notes(plan: Plan, about: About) -> tuple[str, ...]:
    """After the table."""
    drawn = "whole classes" if about.resampled_classes else "single queries"
    quoted = plan.dataset in TITLES
    own = [ABOUT[plan.dataset]] if plan.dataset in ABOUT else []
    if any(plan.recipe_name(row).startswith(MC_DROPOUT_HEADS) for row in plan.rows):
        own.append(DROPOUT_IN_HEAD)
    how = (INTERVALS.format(drawn=drawn), BEST_FREE, AGAINST.format(drawn=drawn))
    return (*how, *(ABOUT_ALL if quoted else ()), *own)


def _command(plan: Plan) -> str:
    """The command line, without the folders of one machine."""
    of_paper = plan.dataset in TITLES
    options = {
        "train-data": plan.train_data and _short(plan.train_data),
        "models": plan.models and plan.models.name,
        "data": of_paper and _short(plan.data),
        "backbone": of_paper and plan.backbone,
        "scale": of_paper and plan.scale,
        "seeds": plan.seeds > 1 and plan.seeds,
        "once": ",".join(plan.once),
        "rows": plan.rows != ROWS and ",".join(row.name for row in plan.rows),
        "ood": plan.foreign and _short(plan.foreign),
    }
    parts = [f"--{name} {value}" for name, value in options.items() if value]
    parts += [f"--zero-shot {_short(data)}" for data in plan.zero_shot]
    for setting in plan.settings:
        key, _, value = setting.partition("=")
        parts += [f"--set {key}={_short(value)}"]
    return " ".join(["surefind reproduce", plan.dataset, *parts])


def _scale(plan: Plan) -> str:
    trained = plan.recipe(plan.rows[0], 0).encoder.backbone
    layer = "glyphs" if plan.dataset == "glyphs" else plan.scale
    recipes = "its rows' recipes" if plan.at_paper_scale else f"`+{layer}` recipes"
    if plan.dataset == "glyphs":
        return f"Glyphs: {trained}, {recipes}; the paper has no such data."
    quoted = BACKBONES[plan.backbone]
    if plan.at_paper_scale:
        return f"Paper scale: {trained}, {recipes}, beside the paper's {quoted}."
    return (
        f"CPU scale: {trained}, {recipes}, not the paper's backbone; its figures are those of "
        f"{quoted}."
    )


def _data(plan: Plan, about: About) -> str:
    told = f"Data: {_short(plan.data)}, {about.queries:,} test queries."
    if plan.dataset in TRAINED_ON:
        trained = _short(plan.trained_on or plan.training_dataset)
        told = f"Models trained on {trained}. {told}"
    if plan.dataset not in TITLES:
        return told
    wanted = TEST_QUERIES.get(plan.dataset)
    if wanted is None:
        return f"{told} The paper does not say how many it had."
    if about.queries != wanted:
        title = TITLES[plan.dataset]
        return f"{told} **This is not the paper's test set**: {title} has {wanted:,}."
    return told


def _short(source: str) -> str:
    """`cub200:/long/way/birds` as `cub200:birds`.

    >>> _short("cub200:/long/way/birds"), _short("glyphs"), _short("0.1")
    ('cub200:birds', 'glyphs', '0.1')
    """
    name, colon, place = source.rpartition(":")
    return f"{name}{colon}{Path(place).name}"
