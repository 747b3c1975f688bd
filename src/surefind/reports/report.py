"""Report folder: results, queries, figures, and a self-contained HTML page."""

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from math import isnan
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from surefind.confidence.explain import guaranteed, percent
from surefind.images.decode import ImageRejected, decode_picture
from surefind.metrics.intervals import Estimate
from surefind.reports import tables
from surefind.reports.evaluate import Evaluation, Progress, Request, evaluate
from surefind.reports.figures import curves, examples
from surefind.reports.figures.curves import draw_index
from surefind.reports.figures.style import NothingToDraw, content, main_signal, save
from surefind.reports.index_evaluation import IndexEvaluation
from surefind.reports.rankings import share_resampled
from surefind.reports.result import PAGE, EvalResult, QueryTable, Report
from surefind.reports.signals import is_learned, ranking_name
from surefind.storage import make_writable, write_whole

INDEX_PAGE = "index_report.html"  # template
RANKING = "means"  # of headline and examples; every model has it
ROWS = 8  # queries of each kind of example
HITS = 5  # nearest beside each
SIDE = 112  # pixels of a thumbnail's longer side
DRAWINGS: dict[str, Callable[..., Figure]] = {
    "calibration": curves.draw_calibration,
    "risk-coverage": curves.draw_risk_coverage,
    "ood": curves.draw_ood,
    "ladder": curves.draw_ladder,
    "extremes": examples.draw_extremes,
    "pairs": examples.draw_pairs,
    "own-and-foreign": examples.draw_own_and_foreign,
}
SELECTIONS: dict[str, dict[str, bool]] = {"surest": {}, "least-sure": {"descending": True}, "wrong": {"top_hit": False}}
COMPARED = ("calibration", "ood", "own-and-foreign")  # called with all reports; others with one
ON_THE_PAGE = ("risk-coverage", "calibration", "ood", "ladder")


class ReportFolder:
    """Paths of a report of `surefind evaluate`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results.json"
        self.queries = folder / "queries.csv"
        self.figures = folder / "figures"
        self.page = folder / PAGE
        self.embeddings = folder / "embeddings"

    def write(self, evaluation: Evaluation) -> None:
        """Write all files; results.json last, as the mark of a complete report."""
        result, queries = evaluation
        make_writable(self.folder)
        queries.write(self.queries)
        write_figures(list(DRAWINGS), [Report(result.about.model, result, queries)], self.figures, lenient=True)
        write_report(self.folder, result, queries)
        result.write(self.results)


def evaluate_into(request: Request, *, output: Path, progress: Progress = lambda *_: None) -> EvalResult:
    """Evaluate and write a report; embeddings are cached in its folder."""
    folder = ReportFolder(output)
    make_writable(output)  # checked before the work
    evaluation = evaluate(request, kept_in=folder.embeddings, progress=progress)
    progress("writing the report", 0, 1)
    folder.write(evaluation)
    return evaluation.result


def write_figures(
    names: Sequence[str],
    reports: Sequence[Report],
    folder: Path,
    *,
    ranking: str = RANKING,
    ending: str = "png",
    lenient: bool = False,
) -> tuple[list[Path], dict[str, str]]:
    """Draw figures of `DRAWINGS` into `folder/NAME.ending`; return the files, and what was left out and why.

    Several reports share the figures in `COMPARED`; the others are drawn once per report, into
    `folder/LABEL/`. With `lenient`, a figure for which a report lacks data is left out; otherwise
    that raises NothingToDraw.
    """
    files: list[Path] = []
    left_out: dict[str, str] = {}
    for name in names:
        if name in COMPARED:
            figures = {name: partial(DRAWINGS[name], reports)}
        else:
            figures = {
                f"{label}/{name}" if len(reports) > 1 else name: partial(DRAWINGS[name], *report)
                for label, *report in reports
            }
        for stem, draw in figures.items():
            path = folder / f"{stem}.{ending}"
            try:
                figure = draw(ranking=ranking)
            except NothingToDraw as nothing:
                if not lenient:
                    raise
                left_out[stem] = nothing.problem
                continue
            make_writable(path.parent)
            save(figure, path)
            files.append(path)
    return files, left_out


def write_report(folder: Path, result: EvalResult, queries: QueryTable) -> Path:
    """Write `report.html` into the folder, with every figure for which there are numbers."""
    figures: dict[str, str] = {}
    report = Report(result.about.model, result, queries)
    for name in ON_THE_PAGE:
        arguments = ([report],) if name in COMPARED else (result, queries)
        with suppress(NothingToDraw):
            figures[name] = _data_uri("image/svg+xml", content(DRAWINGS[name](*arguments), ".svg"))
    make_writable(folder)
    write_whole(folder / PAGE, render(result, queries, figures=figures).encode())
    return folder / PAGE


def render(result: EvalResult, queries: QueryTable, *, figures: Mapping[str, str]) -> str:
    """Return the page as text; `figures` are URIs by name."""
    rankings, about = result.rankings, result.about
    return tables.TEMPLATES.get_template(PAGE).render(
        about=about,
        ranking=rankings[RANKING],
        best=best_signal,
        retrieval=tables.retrieval_table(rankings),
        signals={ranking_name(name): tables.signal_tables(ranking) for name, ranking in rankings.items()},
        main=ranking_name(RANKING),
        learned=any(map(is_learned, rankings[RANKING].signals)),
        ece=tables.ece_tables(rankings),
        figures=figures,
        ladder=tables.ladder_tables(result.ladder) if result.ladder else [],
        **_examples(result, queries),
        exclusions=result.exclusions,
        date=about.date,
        version=about.versions.get("surefind", ""),
        resampled=share_resampled(about.queries, about.resampled_classes or about.queries),
    )


def write_index_report(folder: Path, found: IndexEvaluation) -> Path:
    """Write results.json, figures/confidence.png and report.html; return the page."""
    place = ReportFolder(folder)
    make_writable(place.figures)
    drawn = draw_index(found)
    save(drawn, place.figures / "confidence.png")
    target = f"{percent(found.guarantee.precision)} guaranteed"
    if not found.guaranteed:
        target = f"{percent(found.guarantee.precision)} requested, not guaranteed"
    elif found.kept is not None:
        target += ": kept" if found.kept else ": not kept"
    page = tables.TEMPLATES.get_template(INDEX_PAGE).render(
        found=found,
        name=Path(found.index).resolve().name,
        target=target,
        guarantee=guaranteed(found.guarantee),
        verdicts=tables.verdict_table(found),
        signals=tables.index_signal_table(found),
        figures={"confidence": _data_uri("image/svg+xml", content(drawn, ".svg"))},
        date=found.date,
        version=found.surefind,
    )
    write_whole(place.page, page.encode())
    write_whole(place.results, (json.dumps(found.as_dict(), indent=1) + "\n").encode())
    return place.page


def best_signal(
    signals: Mapping[str, Mapping[str, Estimate]], metric: str, *, learned: bool | None = None
) -> tuple[str, Estimate] | None:
    """Return the best of the learned or the training-free signals, or of all; None without any."""
    found = [
        (name, its[metric])
        for name, its in signals.items()
        if metric in its and not isnan(its[metric].value) and learned in (None, is_learned(name))
    ]
    sign = -1 if tables.METRICS[metric].best is min else 1
    return max(found, key=lambda winner: sign * winner[1].value, default=None)


def _examples(result: EvalResult, queries: QueryTable) -> dict[str, Any]:
    """Return for the page: rows of example queries by kind, and functions of their values."""
    root, signal = Path(result.about.root), main_signal(queries, RANKING)
    own = ~queries["foreign"]

    @cache
    def picture(path: str) -> dict[str, Any]:
        """Re-encode a thumbnail as JPEG, without metadata; or give the reason why not."""
        try:
            image = decode_picture(root / path)
        except ImageRejected as rejected:
            return {"uri": "", "reason": rejected.reason}
        image.thumbnail((SIDE, SIDE))
        file = io.BytesIO()
        image.save(file, "JPEG", quality=80, optimize=True)
        uri = _data_uri("image/jpeg", file.getvalue())
        return {"uri": uri, "width": image.width, "height": image.height}

    return {
        "examples": {
            kind: examples.by_uncertainty(queries, signal, ranking=RANKING, **options)[:ROWS]
            for kind, options in SELECTIONS.items()
        },
        "signal": signal,
        "hits": min(HITS, queries.hits(RANKING).shape[1]),
        "queries": queries,
        "labels": dict(zip(queries["path"][own], queries["label"][own], strict=True)),
        "has_probability": f"{RANKING}.probability.{signal}" in queries.columns,
        "value": lambda column, row: queries[f"{RANKING}.{column}"][row],
        "picture_of": picture,
    }


def _data_uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
