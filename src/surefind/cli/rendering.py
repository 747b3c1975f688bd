"""Search results as terminal tables with previews, as CSV and as JSON."""

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.color import Color
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from surefind.text import printable

if TYPE_CHECKING:
    from surefind.confidence.calibration import Calibration
    from surefind.images.decode import ImageSource
    from surefind.search.hits import SearchResult

PREVIEW_COLUMNS, PREVIEW_LINES = 12, 6  # of characters, which are twice as high as wide
PREVIEW_WIDTH = 72  # columns of a terminal in which previews fit beside the table
COLUMNS = (
    "query", "query_var", "ranking", "reranked", "verdict", "guaranteed", "answer",
    "answer_confidence", "answer_set", "novelty_p_value", "show", "uncalibrated", "rank", "id",
    "label", "path", "distance", "expected_distance", "std", "var", "p_within", "confidence",
    "metadata",
)  # fmt: skip
VERDICT_STYLES = {"match": "bold green", "unsure": "bold yellow", "no_match": "bold magenta"}
PLAIN: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}


def preview(source: "ImageSource | None") -> Text:
    """Draw a picture in half blocks; empty if there is none or it cannot be read."""
    import numpy as np

    from surefind.images.decode import ImageRejected, decode_picture

    text = Text(no_wrap=True, end="")
    if source is None:
        return text
    try:
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


def can_show(console: Console) -> bool:
    """Whether the terminal can show previews: wide, in true colour, with Unicode."""
    return (
        console.is_terminal
        and console.width >= PREVIEW_WIDTH
        and console.color_system == "truecolor"
        and not console.no_color
        and console.encoding.lower().startswith("utf")
    )


def print_result(
    console: Console,
    result: "SearchResult",
    source: "ImageSource | None",
    *,
    calibration: "Calibration | None",
    pictures: bool = True,
) -> None:
    """Print the heading and the hits, with previews if the terminal can show them."""
    pictures = pictures and can_show(console)
    heading: RenderableType = query_heading(result, calibration=calibration)
    if pictures and source is not None:
        beside = Table.grid(padding=(0, 1))
        beside.add_row(preview(source), heading)
        heading = Group(beside, "")
    console.print(heading)
    previews = [preview(hit.path) for hit in result.hits] if pictures else None
    console.print(hits_table(result, previews) if result.hits else "nothing found")


def hits_table(result: "SearchResult", previews: Sequence[RenderableType] | None = None) -> Table:
    """Return a table with a row per hit; with `previews` (one per hit), cells are stacked."""
    from surefind.confidence.explain import whole_percent

    hits, gap = result.hits, " " if previews is None else "\n"
    names, known = [hit.id for hit in hits], [hit.label or "" for hit in hits]
    ids, labels = (list(map(Text, map(printable, texts))) for texts in (names, known))
    columns: dict[str, Sequence[RenderableType]] = {"id": ids} | ({"label": labels} if any(known) else {})
    if previews is not None:
        columns = {"": previews, ", ".join(columns): [Group(*cells) for cells in zip(*columns.values(), strict=True)]}
    text_columns = len(columns)
    columns["distance"] = [_digits(hit.distance, 4) for hit in hits]
    columns[f"expected{gap}± std"] = [
        f"{_digits(hit.expected_distance, 4)}{gap}± {_digits(hit.std, 2)}" for hit in hits
    ]
    if any(hit.p_within is not None for hit in hits):
        columns["P(within)"] = [whole_percent(hit.p_within) for hit in hits]
    if any(hit.confidence is not None for hit in hits):
        columns["confidence"] = [whole_percent(hit.confidence) for hit in hits]
    table = Table("#", leading=int(previews is not None), **PLAIN)
    for number, name in enumerate(columns):
        justify: JustifyMethod = "left" if number < text_columns else "right"
        fold = justify == "left"
        table.add_column(name, justify=justify, no_wrap=not fold, overflow="fold", vertical="middle")
    for number, row in enumerate(zip(*columns.values(), strict=True)):
        table.add_row(str(number + 1), *row)
    return table


def query_heading(result: "SearchResult", *, calibration: "Calibration | None" = None) -> Text:
    """Return the query, the verdict and its confidence."""
    from surefind.confidence.explain import answer_of, confidence_of, how_many_to_look_at, meaning
    from surefind.embeddings import POINT_VAR

    query = printable(result.query)
    learned = result.query_var > 2 * POINT_VAR  # else the model has no variance
    var = f"var {_digits(result.query_var, 3)} · " if learned else ""
    text = Text.assemble(
        (query, "bold"),
        f"\n{var}by {result.ranking}",
        "" if result.ranking == "confidence" else " distance",
        " (candidates re-ranked)" if result.reranked else "",
    )
    if result.verdict is None:
        return text
    text.append("\n" + result.verdict.replace("_", " "), VERDICT_STYLES[result.verdict])
    text.append(f": {meaning(result.verdict, result.novelty_p_value, calibration)}\n")
    advice = how_many_to_look_at(result.verdict, result.show, calibration, listed=len(result.hits))
    label = answer_of(result.label, result.label_confidence, result.label_set, result.verdict)
    if label is None:
        text.append(confidence_of(result.verdict, result.confidence))
    else:
        text.append("label: ").append(printable(label), "bold")
    return text if advice is None else text.append(f"\n{advice}")


def _digits(value: float, count: int) -> str:
    """Format with `count` significant digits."""
    return f"{value:#.{count}g}".rstrip(".")
