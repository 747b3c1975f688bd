"""Compare the metrics of the paper with ours, and write the table as Markdown."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch

from surefind.errors import InvalidFile
from surefind.metrics import PairedTest, paired_test
from surefind.metrics.intervals import Estimate
from surefind.reports.reproduce import paper
from surefind.reports.reproduce.run import MC_DROPOUT_HEADS, PaperRow, Plan, RowResult
from surefind.reports.result import About, QueryTable, Ranking
from surefind.reports.signals import TRAINING_FREE, signal_name
from surefind.storage import write_whole

KS = ("1", "5", "10")
EMPTY = "\N{EN DASH}"
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
ECE = "equal_width"  # the definition that agrees with the paper's tables
INTERVALS = (
    "In brackets the 95 % interval, which does not cover the randomness of training: {drawn} are "
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
    """Metrics of uncertainty; None where the model or the data has none."""

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
    """A row of the paper's table and our result."""

    title: str
    recipe: str
    seeds: int
    paper: dict[str, float]  # by column
    ours: dict[str, SeedMean]
    uncertainty: UncertaintyFigures
    against: PairedTest | None = None  # the first row, in R@1
    footnotes: dict[str, int] = field(default_factory=dict)  # of the paper's figures, by column


@dataclass(frozen=True)
class Comparison:
    """Contents of a table."""

    name: str
    facts: tuple[str, ...]  # scale, data and command
    rows: tuple[ComparedRow, ...]
    footnotes: tuple[str, ...]  # numbered from 1
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        whole = asdict(self)
        for row in whole["rows"]:
            row["against"] = row["against"] and row["against"]._asdict()
        return whole


def compare(plan: Plan, results: Sequence[RowResult]) -> Comparison:
    """Return the results of a plan beside those of the paper."""
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
        rows.append(
            ComparedRow(
                found.row.title,
                found.recipe,
                len(rankings),
                paper.paper_tables().get(printed, {}),
                _figures(rankings),
                _uncertainty(rankings),
                against(plan, found.row, plan.rows[0]) if rows else None,
                marks,
            )
        )
    about = results[0].results[0].about
    facts, notes = _facts(plan, about), _notes(plan, about)
    return Comparison(plan.name, facts, tuple(rows), tuple(footnotes), notes)


def over_seeds(estimates: Sequence[Estimate | None]) -> SeedMean | None:
    """Return the mean over seeds; None where a seed has no estimate."""
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
    """Test R@1 of a row against another one query by query; None without their query tables.

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
    """Return by query (id, label) the share of seeds whose top hit is right."""
    shares: list[dict[tuple[str, str], bool]] = []
    for seed in range(plan.seeds):
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
    """Return scale, data and command."""
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
            foreign += (
                f" Baseline: black bars alone separate them with AUROC {about.bars_auroc:.3f}."
            )
        lines.append(foreign)
    return (*lines, f"Made by `{_short(plan.command)}`.")


def _notes(plan: Plan, about: About) -> tuple[str, ...]:
    """Return the notes below the table."""
    drawn = "whole classes" if about.resampled_classes else "single queries"
    notes = [INTERVALS.format(drawn=drawn), BEST_FREE, AGAINST.format(drawn=drawn)]
    notes += paper.ABOUT_ALL if plan.dataset in paper.TITLES else ()
    notes += [paper.ABOUT[plan.dataset]] if plan.dataset in paper.ABOUT else []
    if any(plan.recipe_name(row).startswith(MC_DROPOUT_HEADS) for row in plan.rows):
        notes.append(DROPOUT_IN_HEAD)
    return tuple(notes)


def _short(text: str) -> str:
    """Remove folders from every word.

    >>> _short("--data cub200:/long/way/birds --set encoder.weights=/w.pt")
    '--data cub200:birds --set encoder.weights=w.pt'
    """
    return re.sub(r"[^\s:=]*/", "", text)


class TextTable(NamedTuple):
    """Title, column names and cells."""

    title: str
    columns: tuple[str, ...]
    lines: list[tuple[str, ...]]


def to_markdown(comparison: Comparison) -> str:
    """Return facts, tables, footnotes and notes as Markdown."""
    parts = ["\n".join(f"- {fact}" for fact in comparison.facts)]
    for table in _tables(comparison):
        lines = [table.columns, ("---",) * len(table.columns), *table.lines]
        shown = (f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"**{table.title}**\n\n" + "\n".join(shown))
    parts += [f"{_mark(n)} {text}" for n, text in enumerate(comparison.footnotes, start=1)]
    parts.append("\n".join(f"- {note}" for note in comparison.notes))
    return "\n\n".join(parts) + "\n"


def into(document: Path, name: str, text: str) -> None:
    """Replace the text between `<!-- begin NAME -->` and `<!-- end NAME -->`."""
    whole, start, end = find_place(document, name)
    write_whole(document, f"{whole[:start]}\n{text.strip()}\n{whole[end:]}".encode())


def find_place(document: Path, name: str) -> tuple[str, int, int]:
    """Return the text of a document, and where the table begins and ends."""
    begin, finish = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    try:
        whole = document.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"cannot read {document}: {error}") from error
    start = whole.find(begin) + len(begin)
    end = whole.find(finish, start)
    if begin not in whole or end < 0:
        raise InvalidFile(
            f"{document} has no place for this table",
            fix=f"write the lines {begin} and {finish} where it belongs",
        )
    return whole, start, end


def _tables(comparison: Comparison) -> list[TextTable]:
    """Return the tables of retrieval, wrong top hits, and others where there is data."""
    rows = comparison.rows

    def ours(
        title: str,
        columns: tuple[str, ...],
        figures: Callable[[ComparedRow], list[SeedMean | None]],
    ) -> TextTable:
        lines = [(row.title, *map(_cell, figures(row))) for row in rows]
        return TextTable(title, ("row", *columns), lines)

    made = [_against_the_paper(rows), _wrong_hits(rows)]
    if any(row.uncertainty.ood or row.uncertainty.free_ood for row in rows):
        columns: tuple[str, ...] = ("AUROC, pair variance", "AUROC, nearest distance")
        title = "Foreign queries (ours)"
        made.append(
            ours(title, columns, lambda row: [row.uncertainty.ood, row.uncertainty.free_ood])
        )
    if any(row.uncertainty.difficulty for row in rows):
        columns = ("rank correlation of query variance and known corruption",)
        made.append(
            ours("Known corruption (ours)", columns, lambda row: [row.uncertainty.difficulty])
        )
    return made


def _against_the_paper(rows: tuple[ComparedRow, ...]) -> TextTable:
    lines: list[tuple[str, ...]] = []
    of_paper = any(row.paper for row in rows)
    for row in rows:
        if row.paper:
            marks = {column: _mark(number) for column, number in row.footnotes.items()}
            quoted = (
                f"{row.paper[column]:.3f}{marks.get(column, '')}" if column in row.paper else EMPTY
                for column in paper.COLUMNS
            )
            lines.append((row.title, "paper", EMPTY, *quoted))
        whose = "ours, not in the paper" if of_paper and not row.paper else "ours"
        ours = (_cell(row.ours.get(column)) for column in paper.COLUMNS)
        lines.append((row.title, whose, str(row.seeds), *ours))
    columns = ("row", "whose", "seeds", *paper.COLUMNS)
    return TextTable("Retrieval and calibration", columns, lines)


def _wrong_hits(rows: tuple[ComparedRow, ...]) -> TextTable:
    lines = []
    for row in rows:
        uncertainty = row.uncertainty
        free = signal_name(uncertainty.free) if uncertainty.free else EMPTY
        cells = map(
            _cell,
            (uncertainty.auroc, uncertainty.free_auroc, uncertainty.aurc, uncertainty.free_aurc),
        )
        paired = EMPTY
        if row.against is not None:
            (value, low, high), p = astuple(row.against.difference), row.against.p_value
            paired = f"{value:+.3f} [{low:+.3f}, {high:+.3f}] p {p:.3f}"
        lines.append((row.title, free, *cells, paired))
    measures = (
        f"{name}, {by}" for name in ("AUROC", "AURC") for by in ("query variance", "training-free")
    )
    columns = ("row", "training-free", *measures, f"R@1 less {rows[0].title}'s")
    return TextTable("Wrong top hits by uncertainty (ours)", columns, lines)


def _cell(figure: SeedMean | None) -> str:
    """
    >>> _cell(SeedMean(0.6, 0.58, 0.62, std=0.01))
    '0.600 [0.580, 0.620] ± 0.010'
    """
    if figure is None:
        return EMPTY
    spread = "" if figure.std is None else f" ± {figure.std:.3f}"
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]{spread}"


def _mark(number: int) -> str:
    return str(number).translate(SUPERSCRIPT)
