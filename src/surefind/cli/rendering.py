"""Search results as terminal tables with previews, as CSV and as JSON."""

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.color import Color
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType
from rich.measure import Measurement
from rich.style import Style
from rich.table import Table
from rich.text import Text

from surefind.cli.output import can_show
from surefind.confidence.calibration import Calibration
from surefind.confidence.conformal import MATCH, NO_MATCH, UNSURE
from surefind.confidence.explain import (
    answer_of,
    confidence_of,
    how_many_to_look_at,
    meaning,
    sure,
)
from surefind.images.decode import ImageRejected, ImageSource, decode_picture
from surefind.search.hits import SearchResult
from surefind.search.query import CONFIDENCE
from surefind.text import printable, shortened

PREVIEW_COLUMNS, PREVIEW_LINES = 12, 6  # of characters, which are twice as high as wide
COLUMNS = (
    "query", "query_var", "ranking", "reranked", "verdict", "guaranteed", "answer",
    "answer_confidence", "answer_set", "novelty_p_value", "show", "uncalibrated", "rank", "id",
    "label", "path", "distance", "expected_distance", "std", "var", "p_within", "confidence",
    "metadata",
)  # fmt: skip
VERDICT_STYLES = {MATCH: "bold green", UNSURE: "bold yellow", NO_MATCH: "bold magenta"}
PLAIN: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}
NARROWEST = 12  # cells of an id in a narrow terminal


def preview(source: ImageSource | None) -> Text:
    """Draw a picture in half blocks; empty if there is none or it cannot be read."""
    text = Text(no_wrap=True, end="")
    try:
        if source is None:
            return text
        picture = decode_picture(source)
    except ImageRejected:
        return text
    scale = min(PREVIEW_COLUMNS / picture.width, 2 * PREVIEW_LINES / picture.height)
    width, height = (max(1, round(side * scale)) for side in picture.size)
    pixels = picture.resize((width, height), reducing_gap=2.0)
    colours = [Color.from_rgb(*pixel) for pixel in np.asarray(pixels).reshape(-1, 3).tolist()]
    for top in range(0, height, 2):
        for column in range(width):
            first, second = top * width + column, (top + 1) * width + column
            below = colours[second] if top + 1 < height else None
            text.append("▀", Style(color=colours[first], bgcolor=below))
        text.append("\n" if top + 2 < height else "")
    return text


def finite(value: Any) -> Any:
    """Return a value for JSON; infinite and NaN numbers become None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return value


def result_as_csv(result: SearchResult) -> str:
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


def print_result(
    console: Console,
    result: SearchResult,
    source: ImageSource | None,
    *,
    calibration: Calibration | None,
    pictures: bool = True,
) -> None:
    """Print the heading and the hits, with previews if the terminal can show them."""
    pictures = pictures and can_show(console)
    shown = preview(source) if pictures and source is not None else None
    console.print(query_heading(result, shown, calibration=calibration))
    if shown is not None:
        console.print()
    previews = [preview(hit.path) for hit in result.hits] if pictures else None
    console.print(hits_table(result, previews) if result.hits else "nothing found")


def hits_table(result: SearchResult, previews: Sequence[RenderableType] | None = None) -> Table:
    """Return a table with a row per hit; with `previews` (one per hit), cells are stacked."""
    hits, stacked = result.hits, previews is not None
    labels = None
    if any(hit.label is not None for hit in hits):
        labels = [hit.label or "" for hit in hits]
    table = Table(leading=int(stacked), **PLAIN)
    columns: list[Sequence[RenderableType]] = []

    def add(name: str, cells: Sequence[RenderableType], justify: JustifyMethod = "right") -> None:
        table.add_column(name, justify=justify, no_wrap=justify == "right", vertical="middle")
        columns.append(cells)

    add("#", [str(rank + 1) for rank in range(len(hits))])
    if previews is not None:
        add("", previews, "left")
    ids: list[RenderableType] = [Shortened(hit.id) for hit in hits]
    if labels is not None and stacked:
        below = [Shortened(label, style="dim") for label in labels]
        add("id, label", [Group(*pair) for pair in zip(ids, below, strict=True)], "left")
    else:
        add("id", ids, "left")
        if labels is not None:
            add("label", [Shortened(label) for label in labels], "left")
    add("distance", [_digits(hit.distance, 4) for hit in hits])
    gap = "\n" if stacked else " "
    expected = ((_digits(hit.expected_distance, 4), _digits(hit.std, 2)) for hit in hits)
    add(f"expected{gap}± std", [f"{value}{gap}± {std}" for value, std in expected])
    if any(hit.p_within is not None for hit in hits):
        add("P(within)", ["" if hit.p_within is None else f"{hit.p_within:.3f}" for hit in hits])
    if any(hit.confidence is not None for hit in hits):
        add("confidence", [sure(hit.confidence) for hit in hits])
    for row in zip(*columns, strict=True):
        table.add_row(*row)
    return table


def query_heading(
    result: SearchResult,
    preview: RenderableType | None = None,
    *,
    calibration: Calibration | None = None,
) -> RenderableType:
    """Return the query, the verdict and its confidence."""
    text = Text.assemble(
        (printable(result.query), "bold"),
        f"\nvar {_digits(result.query_var, 3)} · by {result.ranking}",
        "" if result.ranking == CONFIDENCE else " distance",
        " (candidates re-ranked)" if result.reranked else "",
    )
    if result.verdict is not None:
        text.append("\n" + result.verdict.replace("_", " "), VERDICT_STYLES[result.verdict])
        text.append(f": {meaning(result.verdict, result.novelty_p_value, calibration)}")
        label = answer_of(result.label, result.label_confidence, result.label_set, result.verdict)
        if label is None:
            text.append(f"\n{confidence_of(result.verdict, result.confidence)}")
        else:
            text.append("\nlabel: ").append(printable(label), "bold")
        advice = how_many_to_look_at(
            result.verdict, result.show, calibration, listed=len(result.hits)
        )
        if advice is not None:
            text.append(f"\n{advice}")
    if preview is None:
        return text
    heading = Table.grid(padding=(0, 1))
    heading.add_row(preview, text)
    return heading


class Shortened:
    """Plain text that is cut in the middle to fit its column."""

    def __init__(self, text: str, *, style: str = "") -> None:
        self.text, self.style = printable(text), style

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        whole = Text(self.text).cell_len
        return Measurement(min(NARROWEST, whole), whole).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text(shortened(self.text, options.max_width), style=self.style, no_wrap=True)


def _digits(value: float, count: int) -> str:
    """Format with `count` significant digits."""
    return f"{value:#.{count}g}".rstrip(".")
