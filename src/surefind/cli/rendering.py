"""Search results as terminal tables, as CSV and as JSON."""

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from surefind.text import printable

if TYPE_CHECKING:
    from surefind.confidence.calibration import Calibration
    from surefind.search.hits import SearchResult

COLUMNS = (
    "query", "query_var", "ranking", "reranked", "verdict", "guaranteed", "answer",
    "answer_confidence", "answer_set", "novelty_p_value", "show", "uncalibrated", "rank", "id",
    "label", "path", "distance", "expected_distance", "std", "var", "p_within", "confidence",
    "metadata",
)  # fmt: skip
VERDICT_STYLES = {"match": "bold green", "unsure": "bold yellow", "no_match": "bold magenta"}
PLAIN: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}


def finite(value: Any) -> Any:
    """Return a value for JSON; infinite and NaN numbers become None.

    >>> finite({"std": float("inf"), "metadata": {"year": 2020}, "labels": ("cat", float("nan"))})
    {'std': None, 'metadata': {'year': 2020}, 'labels': ['cat', None]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return value


def result_as_csv(result: "SearchResult") -> str:
    """Return a line per hit, without a header; unknown values are empty."""
    text, facts = io.StringIO(), finite(result.as_dict())
    answer = {
        "answer": result.label,
        "answer_confidence": facts["label_confidence"],
        "answer_set": json.dumps(facts["label_set"], ensure_ascii=False),
    }
    writer = csv.writer(text, lineterminator="\n")
    for rank, hit in enumerate(facts["hits"]):
        row = facts | answer | hit | {"rank": rank + 1, "metadata": json.dumps(hit["metadata"])}
        writer.writerow([row[name] for name in COLUMNS])
    return text.getvalue()


def plain_table(first: str, *others: str, title: str | None = None) -> Table:
    """Return an empty table without edges: a column of text, then columns of numbers."""
    table = Table(title=title, title_justify="left", **PLAIN)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def print_result(console: Console, result: "SearchResult", calibration: "Calibration | None") -> None:
    """Print the heading and the hits."""
    console.print(query_heading(result, calibration))
    console.print(hits_table(result) if result.hits else "nothing found")


def hits_table(result: "SearchResult") -> Table:
    """Return a table with a row per hit."""
    from surefind.confidence.explain import whole_percent

    hits, table = result.hits, Table("#", **PLAIN)
    ids, labels = [hit.id for hit in hits], [hit.label or "" for hit in hits]
    numbers: dict[str, Sequence[str | Text]] = {
        "distance": [_digits(hit.distance, 4) for hit in hits],
        "expected ± std": [f"{_digits(hit.expected_distance, 4)} ± {_digits(hit.std, 2)}" for hit in hits],
    }
    if any(hit.p_within is not None for hit in hits):
        numbers["P(within)"] = [whole_percent(hit.p_within) for hit in hits]
    if any(hit.confidence is not None for hit in hits):
        numbers["confidence"] = [whole_percent(hit.confidence) for hit in hits]
    columns: dict[str, Sequence[str | Text]] = {"id": list(map(Text, map(printable, ids)))}
    if any(labels):
        columns["label"] = list(map(Text, map(printable, labels)))
    for name in columns:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for number, row in enumerate(zip(*columns.values(), *numbers.values(), strict=True), start=1):
        table.add_row(str(number), *row)
    return table


def query_heading(result: "SearchResult", calibration: "Calibration | None" = None) -> Text:
    """Return the query, the verdict and its confidence."""
    from surefind.confidence.explain import answer_of, confidence_of, how_many_to_look_at, meaning
    from surefind.embeddings import POINT_VAR

    learned = result.query_var > 2 * POINT_VAR  # else the model has no variance
    by = f"\n{f'var {_digits(result.query_var, 3)} · ' if learned else ''}by {result.ranking}"
    by += "" if result.ranking == "confidence" else " distance"
    by += " (candidates re-ranked)" if result.reranked else ""
    if result.verdict is None:
        return Text.assemble((printable(result.query), "bold"), by)
    means = f": {meaning(result.verdict, result.novelty_p_value, calibration)}\n"
    label = answer_of(result.label, result.label_confidence, result.label_set, result.verdict)
    sure = "label: " if label else confidence_of(result.verdict, result.confidence)
    advice = how_many_to_look_at(result.verdict, result.show, calibration, listed=len(result.hits))
    return Text.assemble(
        (printable(result.query), "bold"),
        f"{by}\n",
        (result.verdict.replace("_", " "), VERDICT_STYLES[result.verdict]),
        f"{means}{sure}",
        (printable(label or ""), "bold"),
        f"\n{advice}" if advice else "",
    )


def _digits(value: float, count: int) -> str:
    """Format with `count` significant digits."""
    return f"{value:#.{count}g}".rstrip(".")
