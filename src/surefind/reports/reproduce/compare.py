"""The paper's figures and ours, brought together."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch

from surefind.metrics import PairedTest, paired_test
from surefind.metrics.bootstrap import Estimate
from surefind.reports.reproduce import paper
from surefind.reports.reproduce.plan import MC_DROPOUT_HEADS, ROWS, PaperRow, Plan
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
class SeedMean:
    """A metric over seeds: means of the values and of the interval's ends."""

    value: float
    low: float
    high: float
    std: float | None  # between seeds, from two on


@dataclass(frozen=True)
class UncertaintyFigures:
    """How good the uncertainty is; None where a model or the data has no such thing."""

    auroc: SeedMean | None  # of "the top hit is wrong", by query_var
    aurc: SeedMean | None
    free: str  # the training-free signal with the best AUROC on these queries
    free_auroc: SeedMean | None
    free_aurc: SeedMean | None
    ood: SeedMean | None  # AUROC of "the query is foreign", by pair_var
    free_ood: SeedMean | None  # by nearest_distance
    difficulty: SeedMean | None  # rank correlation of query_var with known corruption


@dataclass(frozen=True)
class ComparedRow:
    """One line of the table, twice."""

    title: str
    recipe: str
    seeds: int
    paper: dict[str, float]  # by column
    ours: dict[str, SeedMean]
    uncertainty: UncertaintyFigures
    against: PairedTest | None = None  # the first row, in R@1
    zero_shot: tuple[
        tuple[dict[str, SeedMean], UncertaintyFigures], ...
    ] = ()  # for each other data
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
    """Return the table of a plan's results."""
    footnotes: list[str] = []
    rows: list[ComparedRow] = []
    for found in results:
        printed = (plan.dataset, plan.backbone, found.row.paper or "")
        marks: dict[str, int] = {}
        if printed in paper.REMARKS:
            columns, text = paper.REMARKS[printed]
            footnotes.append(text)
            marks = dict.fromkeys(columns, len(footnotes))
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
                paper.paper_tables().get(printed, {}),
                _figures(rankings),
                _uncertainty(rankings),
                against(plan, found.row, plan.rows[0]) if rows else None,
                tuple((_figures(of_data), _uncertainty(of_data)) for of_data in elsewhere),
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


def over_seeds(estimates: Sequence[Estimate | None]) -> SeedMean | None:
    """None where a seed has no estimate."""
    known = [estimate for estimate in estimates if estimate is not None]
    if not known or len(known) < len(estimates):
        return None
    values = [estimate.value for estimate in known]
    return SeedMean(
        fmean(values),
        fmean(estimate.low for estimate in known),
        fmean(estimate.high for estimate in known),
        stdev(values) if len(values) > 1 else None,
    )


def _figures(rankings: Sequence[Ranking]) -> dict[str, SeedMean]:
    figures: dict[str, SeedMean | None] = {}
    for k in KS:
        figures[f"R@{k}"] = over_seeds([ranking.recall.get(k) for ranking in rankings])
        figures[f"M@{k}"] = over_seeds([ranking.mean_ap.get(k) for ranking in rankings])
        figures[f"ECE@{k}"] = over_seeds([ranking.ece.get(ECE, {}).get(k) for ranking in rankings])
    return {column: found for column in paper.COLUMNS if (found := figures[column]) is not None}


def _uncertainty(rankings: Sequence[Ranking]) -> UncertaintyFigures:
    def get(name: str, measure: str) -> SeedMean | None:
        found = [ranking.signals.get(name) for ranking in rankings]
        if measure == "ood":
            return over_seeds([s.ood.auroc if s and s.ood else None for s in found])
        return over_seeds([getattr(signal, measure) if signal else None for signal in found])

    known = {name: figure for name in TRAINING_FREE if (figure := get(name, "auroc"))}
    free = max(known, key=lambda name: known[name].value, default="")
    return UncertaintyFigures(
        get("query_var", "auroc"),
        get("query_var", "aurc"),
        free,
        known.get(free),
        get(free, "aurc"),
        get("pair_var", "ood"),
        get("nearest_distance", "ood"),
        get("query_var", "difficulty"),
    )


def against(plan: Plan, row: PaperRow, other: PaperRow) -> PairedTest | None:
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


def _right(plan: Plan, row: PaperRow) -> dict[tuple[str, str], float] | None:
    """For each query by name and label, the share of seeds whose top hit is right."""
    shares: list[dict[tuple[str, str], bool]] = []
    for seed in plan.seeds_of(row):
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
    """What to know before reading: scale, data and command."""
    trained, of_paper = (
        plan.recipe(plan.rows[0], 0).encoder.backbone,
        paper.BACKBONES[plan.backbone],
    )
    recipes = f"`+{plan.recipes}` recipes" if plan.recipes else "its rows' recipes"
    scale = f"Paper scale: {trained}, {recipes}, beside the paper's {of_paper}."
    if plan.dataset == "glyphs":
        scale = f"Glyphs: {trained}, {recipes}; the paper has no such data."
    elif not plan.at_paper_scale:
        scale = (
            f"CPU scale: {trained}, {recipes}, not the paper's backbone; its figures are those of "
            f"{of_paper}."
        )
    data = f"Data: {_short(plan.data)}, {about.queries:,} test queries."
    if plan.dataset in paper.TRAINED_ON:
        trained_on = _short(plan.trained_on or plan.training_dataset)
        data = f"Models trained on {trained_on}. {data}"
    wanted = paper.TEST_QUERIES.get(plan.dataset)
    if plan.dataset in paper.TITLES and wanted is None:
        data += " The paper does not say how many it had."
    elif wanted not in (None, about.queries):
        title = paper.TITLES[plan.dataset]
        data += f" **This is not the paper's test set**: {title} has {wanted:,}."
    lines = [scale, data]
    if about.foreign:
        foreign = f"Foreign queries: {about.foreign_queries:,}, {_short(about.foreign)}."
        if about.bars_auroc is not None:
            foreign += f" Their black bars alone give them away with AUROC {about.bars_auroc:.3f}."
        lines.append(foreign)
    return (*lines, f"Made by `{_command(plan)}`.")


def _notes(plan: Plan, about: About) -> tuple[str, ...]:
    """After the table."""
    drawn = "whole classes" if about.resampled_classes else "single queries"
    notes = [INTERVALS.format(drawn=drawn), BEST_FREE, AGAINST.format(drawn=drawn)]
    notes += paper.ABOUT_ALL if plan.dataset in paper.TITLES else ()
    notes += [paper.ABOUT[plan.dataset]] if plan.dataset in paper.ABOUT else []
    if any(plan.recipe_name(row).startswith(MC_DROPOUT_HEADS) for row in plan.rows):
        notes.append(DROPOUT_IN_HEAD)
    return tuple(notes)


def _command(plan: Plan) -> str:
    """The command line, without the folders of one machine."""
    of_paper = plan.dataset in paper.TITLES
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


def _short(source: str) -> str:
    """`cub200:/long/way/birds` as `cub200:birds`.

    >>> _short("cub200:/long/way/birds"), _short("glyphs"), _short("0.1")
    ('cub200:birds', 'glyphs', '0.1')
    """
    name, colon, place = source.rpartition(":")
    return f"{name}{colon}{Path(place).name}"
