"""Render an evaluation as one HTML page that needs nothing beside it, and no network."""

import base64
import io
from collections.abc import Callable, Mapping
from functools import cache
from math import isnan
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure

from surefind.files import make_writable, write_whole
from surefind.images.decode import ImageRejected, decode_picture
from surefind.metrics.bootstrap import Estimate
from surefind.reports.figures.evaluation import (
    draw_calibration,
    draw_ladder,
    draw_ood,
    draw_risk_coverage,
)
from surefind.reports.figures.examples import by_uncertainty
from surefind.reports.figures.style import NothingToDraw, content, main_signal
from surefind.reports.measures import share_resampled
from surefind.reports.result import EvalResult, QueryTable, Signal
from surefind.reports.signals import is_learned, ranking_name, signal_name
from surefind.reports.tables import (
    decimal,
    ece_tables,
    interval,
    ladder_tables,
    percent,
    retrieval_table,
    risk_title,
    short,
    signal_tables,
    signal_values,
)

NAME = "report.html"
RANKING = "means"  # the order that headlines and galleries speak of; every model has it
ROWS = 8  # queries of each kind of example
HITS = 5  # nearest beside each
SIDE = 112  # pixels of a thumbnail's longer side; crisp at the size the page shows
QUALITY = 80
FIGURES: dict[str, Callable[[EvalResult, QueryTable], Figure]] = {
    "risk_coverage": draw_risk_coverage,
    "calibration": draw_calibration,
    "ood": draw_ood,
    "ladder": draw_ladder,
}

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {
    "decimal": decimal,
    "percent": percent,
    "interval": interval,
    "percent_interval": lambda value: interval(value, percent),
    "thousands": "{:,}".format,
    "signal_name": signal_name,
}


class Thumbnail(NamedTuple):
    """A picture, or why there is none."""

    uri: str = ""  # data:, of a JPEG drawn anew: nothing of the file but its pixels
    width: int = 0
    height: int = 0
    reason: str = ""


def write_report(folder: Path, result: EvalResult, queries: QueryTable) -> Path:
    """Write `report.html` into the folder."""
    path = folder / NAME
    page = render(result, queries, figures=draw(result, queries))
    make_writable(folder)
    write_whole(path, page.encode())
    return path


def draw(result: EvalResult, queries: QueryTable) -> dict[str, str]:
    """Draw every figure for which there are numbers, each as the URI of an SVG picture."""
    found: dict[str, str] = {}
    for name, figure in FIGURES.items():
        try:
            svg = content(figure(result, queries), ".svg")
        except NothingToDraw:
            continue
        found[name] = _data_uri("image/svg+xml", svg)
    return found


def render(result: EvalResult, queries: QueryTable, *, figures: Mapping[str, str]) -> str:
    """Return the page as text; `figures` are URIs by name."""
    rankings, about = result.rankings, result.about
    shares = next(iter(rankings[RANKING].signals.values())).risk_at
    return _TEMPLATES.get_template(NAME).render(
        about=about,
        ranking=rankings[RANKING],
        best=best_signal,
        share=min(shares, key=float),
        risk_title=risk_title,
        retrieval=retrieval_table(rankings),
        signals={ranking_name(name): signal_tables(ranking) for name, ranking in rankings.items()},
        main=ranking_name(RANKING),
        learned=any(map(is_learned, rankings[RANKING].signals)),
        ece=ece_tables(rankings),
        figures=figures,
        ladder=ladder_tables(result.ladder) if result.ladder else [],
        signal=main_signal(queries, RANKING),
        examples=_examples(result, queries),
        exclusions=result.exclusions,
        resampled=share_resampled(about.queries, about.resampled_classes or about.queries),
    )


def best_signal(
    signals: Mapping[str, Signal], measure: str, *, learned: bool | None = None
) -> tuple[str, Estimate] | None:
    """Return the best of the learned or the training-free signals, or of all; None without any."""
    found = [
        (name, value)
        for name, signal in signals.items()
        if isinstance(value := signal_values(signal)[measure], Estimate)
        and not isnan(value.value)
        and learned in (None, is_learned(name))
    ]
    sign = -1 if measure == "AURC" or measure.startswith("risk") else 1
    return max(found, key=lambda winner: sign * winner[1].value, default=None)


def thumbnail(path: Path) -> Thumbnail:
    """Never fails: a picture that is missing or cannot be read says so in its place."""
    try:
        image = decode_picture(path)
    except ImageRejected as rejected:
        return Thumbnail(reason=rejected.reason)
    image.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY, optimize=True)
    return Thumbnail(_data_uri("image/jpeg", file.getvalue()), *image.size)


def _examples(result: EvalResult, queries: QueryTable) -> dict[str, list[dict[str, Any]]]:
    """Queries worth a look with their hits, by the model's own uncertainty."""
    root, signal = Path(result.about.root), main_signal(queries, RANKING)
    own = ~queries["foreign"]
    labels = dict(zip(queries["path"][own].tolist(), queries["label"][own].tolist(), strict=True))
    picture = cache(thumbnail)  # one that several queries share is read once

    def number(column: str, row: int) -> float:
        name = f"{RANKING}.{column}"
        return float(queries[name][row]) if name in queries else float("nan")

    def hit(row: int, rank: int) -> dict[str, Any]:
        path = str(queries[f"{RANKING}.hit_{rank}"][row])
        return {
            "picture": picture(root / path),
            "path": path,
            "label": labels.get(path) or PurePosixPath(path).name,
            "distance": short(number(f"distance_{rank}", row)),
            "match": bool(queries[f"{RANKING}.match_{rank}"][row]),
        }

    def entry(row: int) -> dict[str, Any]:
        path, probability = str(queries["path"][row]), number(f"probability.{signal}", row)
        names = {rank: f"{RANKING}.hit_{rank}" for rank in range(1, HITS + 1)}
        ranks = [rank for rank, name in names.items() if name in queries and queries[name][row]]
        return {
            "picture": picture(root / path),
            "path": path,
            "label": str(queries["label"][row]),
            "uncertainty": short(number(f"signal.{signal}", row)),
            "probability": "" if isnan(probability) else percent(probability),
            "hits": [hit(row, rank) for rank in ranks],
        }

    chosen = {
        "surest": by_uncertainty(queries, signal),
        "least_sure": by_uncertainty(queries, signal, descending=True),
        "confident_but_wrong": by_uncertainty(queries, signal, top_hit=False),
    }
    return {kind: [entry(row) for row in rows[:ROWS].tolist()] for kind, rows in chosen.items()}


def _data_uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
