"""surefind calibrate: fit the confidence of an index to labelled queries."""

import json
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

import surefind as sf
from surefind.cli.options import (
    QUERIES,
    EngineOption,
    IndexArgument,
    JsonOption,
    LabelOption,
    PrecisionOption,
    ProbabilityOption,
    Ranking,
    Split,
    VarianceOption,
    labelled_vectors,
    split_of,
)
from surefind.cli.output import note, print_some, rejected_as_json, stages

if TYPE_CHECKING:
    from surefind.confidence.calibration import Calibration
    from surefind.images.catalog import Catalog
    from surefind.images.loader import Rejection

NO_GUARANTEE = 3  # exit code, also if the queries have drifted


def calibrate(
    folder: IndexArgument,
    data: Annotated[
        str | None, Argument(metavar="DATA", help=f"Labelled queries: {QUERIES}. Default: the indexed images.")
    ] = None,
    precision: PrecisionOption = 0.95,
    probability: ProbabilityOption = 0.9,
    ahead: Annotated[int | None, Option(min=1, help="Guarantee the next N queries, not the long run.")] = None,
    miss: Annotated[float, Option(help="Allowed share of queries whose recommended hits contain no match.")] = 0.1,
    novelty_level: Annotated[float, Option(help="Allowed share of genuine queries called no_match.")] = 0.01,
    unknown: Annotated[float, Option(help="Expected share of queries whose label the index does not have.")] = 0.0,
    split: Annotated[Split, Option(help="Split of the data to use; best one the model was not trained on.")] = "all",
    labels: Annotated[
        bool | None,
        Option(
            "--labels/--no-labels",
            help="Judge hits by the labels of the index. Default: if at least half of the images have one.",
        ),
    ] = None,
    label: LabelOption = "label",
    again: Annotated[bool, Option("--again", help="Use the queries and targets of the last calibration.")] = False,
    where: Annotated[list[str] | None, Option(help="Calibrate searches with this filter, beside plain ones.")] = None,
    views: Annotated[int, Option(min=1, help="Calibrate searches with N views of one item, beside plain ones.")] = 1,
    ranking: Annotated[Ranking | None, Option(help="Calibrate searches in this ranking, beside plain ones.")] = None,
    kind: Annotated[str, Option(help="Calibrate queries of another kind than the index, such as text.")] = "",
    variance: VarianceOption = True,
    plot: Annotated[Path | None, Option(help="Draw the calibration as PNG, SVG or PDF.")] = None,
    check: Annotated[
        bool, Option("--check", help="Only test whether DATA, without labels, have drifted from the calibration.")
    ] = False,
    as_json: JsonOption = False,
    engine: EngineOption = None,
) -> None:
    """Calibrate the confidence of hits with labelled queries; every search then reports it.

    Exit code 3 if the data cannot support the guarantee: a result is then called a match from a
    confidence of the requested precision, without a guarantee.

    Examples:
        surefind calibrate photos.index labelled/
        surefind calibrate photos.index --again
        surefind calibrate photos.index --again --where price<10
        surefind calibrate photos.index labelled/ --precision 0.99 --plot fit.png
        surefind calibrate photos.index new-queries/ --check
    """
    if check and plot is not None:
        raise sf.InvalidArgument("--check, --plot", expected="one of them", got="both")
    if data is None and (check or split != "all"):
        raise sf.InvalidArgument("DATA", expected="queries after INDEX", got="none")
    if data is not None and again:
        raise sf.InvalidArgument("--again", expected="no DATA: queries are kept", got=data)
    targets = sf.CalibrationTargets(
        precision=precision,
        probability=probability,
        horizon=ahead,
        miss_rate=miss,
        novelty_level=novelty_level,
        unknown_share=unknown,
    )
    if plot is not None:  # checked before the work
        from surefind.reports.figures.curves import draw_confidence
        from surefind.reports.figures.style import check_ending, save
        from surefind.storage import make_writable

        check_ending(plot)
        make_writable(plot.parent)
    if check and data is not None:
        _check(folder, data, split, engine, as_json=as_json)
        return
    with stages() as progress, sf.Index.open(folder, engine=engine) as index:
        labelled, names = (data, None) if data is None else read_queries(index, data, split)
        calibration = index.calibrate(
            labelled,
            labels=names,
            targets=None if again else targets,
            use_labels=labels,
            label=label,
            again=again,
            where=where,
            views=views,
            ranking=ranking,
            kind=kind,
            learn_variance=variance,
            progress=progress,
        )
    if as_json:
        print(json.dumps(calibration.summary()))
    else:
        print_calibration(folder, calibration)
    if plot is not None:
        save(draw_confidence(calibration), plot)
        if not as_json:
            print(f"drawn in {plot}")
    if calibration.guarantee.threshold is None:
        raise Exit(NO_GUARANTEE)


def read_queries(
    index: "sf.Index", data: str, split: Split, label: str | None = None
) -> "tuple[Catalog | sf.Embeddings | str, Sequence[str] | None]":
    """Return labelled queries and, for vectors, their labels, which `label` names in the file."""
    from surefind.vectors.reader import as_vectors

    if not index.has_model:
        given = labelled_vectors(data, labels=label)
        return index.embed(as_vectors(given.values, index.space.dim)), given.labels
    return data if split == "all" else split_of(data, split), None


def _check(folder: Path, data: str, split: Split, engine: str | None, *, as_json: bool) -> None:
    """Compare queries with those of the calibration."""
    from dataclasses import asdict

    import numpy as np

    from surefind.vectors.reader import as_vectors, read_vectors

    rejected: Sequence[Rejection] = ()
    queries: sf.Embeddings
    with stages() as progress, sf.Index.open(folder, engine=engine) as index:
        if index.calibration is None:
            raise sf.SurefindError(f"{folder} is not calibrated", fix=f"surefind calibrate {quote(str(folder))}")
        if not index.has_model:
            queries = index.embed(as_vectors(read_vectors(data).values, index.space.dim))
        else:
            catalog = split_of(data, split)
            if any(catalog.queries):
                catalog = catalog.select(np.flatnonzero(catalog.queries))
            queries, _, rejected = index.encoder.encode_all(
                catalog.files, progress=lambda done: progress("encoding", done, len(catalog))
            )
        drifts = index.drift(queries)
        facts = {"index": str(folder), "queries": len(queries), "calibrated": index.calibration.origin.created}
    if as_json:
        facts |= {"drifts": [asdict(drift) for drift in drifts], "rejected": rejected_as_json(rejected)}
        print(json.dumps(facts))
    else:
        for bad in rejected:
            note(f"{bad.path}: {bad.reason}")
        if drifts:
            print(f"drift: these {len(queries):,} queries differ from those of the calibration")
            print_some("differences", [drift.message for drift in drifts])
            print("The guarantee may not hold for them: calibrate again with queries like these.")
        else:
            print(f"no drift: these {len(queries):,} queries resemble those of the calibration")
    if drifts:
        raise Exit(NO_GUARANTEE)


def print_calibration(folder: Path, calibration: "Calibration") -> None:
    """Print facts, quality and guarantees; warnings go to stderr."""
    import numpy as np
    from rich.console import Console

    from surefind.cli.rendering import plain_table
    from surefind.confidence import explain
    from surefind.reports.index_evaluation import share_answered
    from surefind.text import printable

    quality, curve, target = calibration.quality, calibration.curve, calibration.guarantee.precision
    images = calibration.origin.gallery
    print(printable(f"{folder}, {images:,} images: calibrated {explain.made_with(calibration)}"))
    if copies := explain.copies_left_out(calibration):
        print(copies)
    if quality is not None:
        print(
            f"{explain.measured(quality.right)} of the first hits are right, and "
            f"{explain.measured(quality.nearest_right)} of the nearest images\n"
        )
        table = plain_table("signal", "AUROC", "ECE (floor)", f"answered at {explain.percent(target)}")
        baseline = quality.baseline_auroc, quality.baseline_ece, quality.baseline_floor
        for name, (auroc, ece, floor), sure, right in (
            ("confidence", (quality.auroc, quality.ece, quality.floor), curve.confidence, curve.right),
            ("nearest distance", baseline, curve.baseline, curve.baseline_right),
        ):
            share = share_answered(-np.array(sure), np.array(right), target)
            error = f"{explain.digits(ece)} ({explain.digits(floor)})"
            table.add_row(name, explain.digits(auroc), error, explain.measured(share))
        table.add_row("d₁/d₂₀", explain.digits(quality.ratio_auroc))
        if quality.vote_auroc is not None:
            table.add_row("label vote of 10", explain.digits(quality.vote_auroc))
        Console().print(table)
        print("Does the signal know that the first hit is wrong? Cross-validated over classes; ECE")
        print("is debiased, and beside it that of a perfectly calibrated model.\n")
        print(explain.in_short(calibration))
    print(explain.guaranteed(calibration.guarantee))
    print(explain.shown(calibration))
    print(explain.no_match_rule(calibration))
    for weakness in calibration.origin.remarks:
        note(f"warning: {weakness}")
