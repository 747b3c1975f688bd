"""Compare our metrics with the paper's, and write the table as Markdown.

Warburg et al. 2021, "Bayesian Triplet Loss", tables 1 to 3 (paper.csv): R is recall, M mean average
precision, ECE the expected calibration error of the query variance. "Bayes Triplet" is the loss
with Gaussians.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch

from surefind.errors import InvalidFile
from surefind.metrics import PairedTest, paired_test
from surefind.metrics.intervals import Estimate
from surefind.reports.reproduce import BACKBONES, MC_DROPOUT_HEADS, TITLES, PaperRow, Plan
from surefind.reports.result import About, EvalResult, QueryTable, Ranking
from surefind.reports.signals import TRAINING_FREE, signal_name
from surefind.reports.tables import TEMPLATES
from surefind.storage import write_whole

WRONG, BEST_FREE = "Wrong top hits by uncertainty (ours)", ""
SIGNALS = {  # by table and column: signal, metric
    WRONG: {
        "AUROC, query variance": ("query_var", "auroc"),
        "AUROC, training-free": (BEST_FREE, "auroc"),
        "AURC, query variance": ("query_var", "aurc"),
        "AURC, training-free": (BEST_FREE, "aurc"),
    },
    "Foreign queries (ours)": {
        "AUROC, pair variance": ("pair_var", "ood_auroc"),
        "AUROC, nearest distance": ("nearest_distance", "ood_auroc"),
    },
    "Known corruption (ours)": {"rank correlation of query variance and known corruption": ("query_var", "difficulty")},
}
COLUMNS = ("R@1", "R@5", "R@10", "M@1", "M@5", "M@10", "ECE@1", "ECE@5", "ECE@10")
TEST_QUERIES = {"cub200": 5924, "cars196": 8131}  # of MSLS the paper does not say

_ONE_QUANTITY = "R@1 and M@1 are one quantity; the paper prints two figures."
_COPIED = "The three figures are those of TripReg, so probably copied by mistake."
REMARKS = {  # footnotes to some columns of a row
    ("cub200", "resnet50", "Bayes Triplet (Exp)"): (("R@1", "M@1"), _ONE_QUANTITY),
    ("cars196", "densenet161", "Bayes vMF"): (("R@1", "M@1"), _ONE_QUANTITY),
    ("msls", "resnet50", "Bayes vMF"): (("ECE@1", "ECE@5", "ECE@10"), _COPIED),
}
EMPTY = "\N{EN DASH}"
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
ECE = "equal_width"  # the definition that agrees with the paper's tables


@cache
def paper_tables() -> dict[tuple[str, str, str], dict[str, float]]:
    """Return the printed figures by column, for each data set, backbone and row of the paper.

    >>> paper_tables()["cub200", "resnet50", "Triplet"]["R@1"]
    0.648
    """
    with (Path(__file__).parent / "paper.csv").open(newline="") as file:
        return {
            (line["dataset"], line["backbone"], line["row"]): {
                column: float(line[column]) for column in COLUMNS if line[column]
            }
            for line in csv.DictReader(file)
        }


@dataclass(frozen=True)
class SeedMean:
    """A metric over seeds: means of the values and of the interval's ends."""

    value: float
    low: float
    high: float
    std: float | None  # between seeds, from two on


@dataclass(frozen=True)
class ComparedRow:
    """A row of the paper's table and our result."""

    title: str
    recipe: str
    seeds: int
    paper: dict[str, float]  # by column
    ours: dict[str, SeedMean]  # by column of all tables
    free: str = ""  # the training-free signal with the best AUROC on these queries
    against: PairedTest | None = None  # the first row, in R@1
    footnotes: dict[str, int] = field(default_factory=dict)  # of the paper's figures, by column


@dataclass(frozen=True)
class Comparison:
    """Contents of a table."""

    plan: Plan
    about: About  # of the first row
    rows: tuple[ComparedRow, ...]
    footnotes: tuple[str, ...]  # numbered from 1

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        rows = [asdict(row) for row in self.rows]
        for row in rows:
            row["against"] = row["against"] and row["against"]._asdict()
        facts = {"name": self.plan.name, "data": self.plan.data, "command": self.plan.command}
        return {**facts, "queries": self.about.queries, "rows": rows, "footnotes": self.footnotes}


def compare(plan: Plan, results: Mapping[PaperRow, Sequence[EvalResult]]) -> Comparison:
    """Return the results of a plan, by row and seed, beside those of the paper."""
    footnotes: list[str] = []
    rows: list[ComparedRow] = []
    for row, found in results.items():
        printed = (plan.dataset, plan.backbone, row.paper or "")
        marks: dict[str, int] = {}
        if printed in REMARKS:
            columns, text = REMARKS[printed]
            footnotes.append(text)
            marks = dict.fromkeys(columns, len(footnotes))
        rankings = [result.rankings[row.ranking] for result in found]
        free = best_free_signal(rankings)
        rows.append(
            ComparedRow(
                row.title,
                plan.recipe_name(row),
                len(rankings),
                paper_tables().get(printed, {}),
                figures_of(rankings, free),
                free,
                against(plan, row, plan.rows[0]) if rows else None,
                marks,
            )
        )
    return Comparison(plan, results[plan.rows[0]][0].about, tuple(rows), tuple(footnotes))


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


def best_free_signal(rankings: Sequence[Ranking]) -> str:
    """Return the training-free signal with the best mean AUROC of a wrong top hit; "" if none."""
    means = {
        name: fmean(ranking.signals[name]["auroc"].value for ranking in rankings)
        for name in TRAINING_FREE
        if all("auroc" in ranking.signals.get(name, {}) for ranking in rankings)
    }
    return max(means, key=lambda name: means[name], default="")


def figures_of(rankings: Sequence[Ranking], free: str) -> dict[str, SeedMean]:
    """Return the columns of all tables that are known."""
    figures: dict[str, SeedMean | None] = {}
    for column in COLUMNS:
        name = column.replace("M@", "mAP@")
        figures[column] = over_seeds([its.retrieval.get(name) or its.ece.get(ECE, {}).get(name) for its in rankings])
    for columns in SIGNALS.values():
        for column, (signal, metric) in columns.items():
            found = [its.signals.get(signal or free, {}).get(metric) for its in rankings]
            figures[column] = over_seeds(found)
    return {column: figure for column, figure in figures.items() if figure is not None}


def against(plan: Plan, row: PaperRow, other: PaperRow) -> PairedTest | None:
    """Test R@1 of a row against another one query by query; None without their query tables.

    Queries of one label are resampled and flipped together.
    """
    first, second = _right(plan, row), _right(plan, other)
    if first is None or second is None or first.keys() != second.keys():
        return None
    ours, theirs = (torch.tensor([values[query] for query in first], dtype=torch.float64) for values in (first, second))
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


def short(text: str) -> str:
    """Remove folders from every word.

    >>> short("--data cub200:/long/way/birds --set encoder.weights=/w.pt")
    '--data cub200:birds --set encoder.weights=w.pt'
    """
    return re.sub(r"[^\s:=]*/", "", text)


def to_markdown(comparison: Comparison) -> str:
    """Return facts, tables, footnotes and notes as Markdown."""
    plan = comparison.plan
    recipes = map(plan.recipe_name, plan.rows)
    return TEMPLATES.get_template("paper.md").render(
        plan=plan,
        about=comparison.about,
        titles=TITLES,
        backbone=BACKBONES[plan.backbone],
        test_queries=TEST_QUERIES.get(plan.dataset),
        dropout_in_head=any(name.startswith(MC_DROPOUT_HEADS) for name in recipes),
        tables=_tables(comparison.rows),
        footnotes=comparison.footnotes,
        short=short,
        mark=_mark,
    )


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
            f"{document} has no place for this table", fix=f"write the lines {begin} and {finish} where it belongs"
        )
    return whole, start, end


def _tables(rows: Sequence[ComparedRow]) -> dict[str, list[list[str]]]:
    """Return tables by title, the header first; without those for which there is no data."""
    of_paper = any(row.paper for row in rows)
    retrieval = [["row", "whose", "seeds", *COLUMNS]]
    for row in rows:
        if row.paper:
            marks = {column: _mark(number) for column, number in row.footnotes.items()}
            quoted = (
                f"{row.paper[column]:.3f}{marks.get(column, '')}" if column in row.paper else EMPTY
                for column in COLUMNS
            )
            retrieval.append([row.title, "paper", EMPTY, *quoted])
        whose = "ours, not in the paper" if of_paper and not row.paper else "ours"
        retrieval.append([row.title, whose, str(row.seeds), *_cells(row, COLUMNS)])
    tables = {"Retrieval and calibration": retrieval}
    for title, columns in SIGNALS.items():
        lines = [[row.title, *_cells(row, columns)] for row in rows]
        if title == WRONG:
            header = ["row", "training-free", *columns, f"R@1 less {rows[0].title}'s"]
            for row, line in zip(rows, lines, strict=True):
                line.insert(1, signal_name(row.free) or EMPTY)
                line.append(_paired(row.against))
            tables[title] = [header, *lines]
        elif any(column in row.ours for row in rows for column in columns):
            tables[title] = [["row", *columns], *lines]
    return tables


def _cells(row: ComparedRow, columns: Iterable[str]) -> list[str]:
    return [_cell(row.ours.get(column)) for column in columns]


def _paired(test: PairedTest | None) -> str:
    if test is None:
        return EMPTY
    value, low, high = astuple(test.difference)
    return f"{value:+.3f} [{low:+.3f}, {high:+.3f}] p {test.p_value:.3f}"


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
