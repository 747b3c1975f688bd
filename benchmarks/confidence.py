"""How well wrong first hits are detected, how calibrated that is, and whether guarantees are kept.

python benchmarks/confidence.py [--data DATA] [--glyphs MODEL] [--draws 10] [--into DOCUMENT]

Every figure is a mean over seven splits of the classes into those that are fitted to and those that
are judged: the official split, its reverse, five random ones; in brackets the extremes.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from feature_sets import PHOTOS, FeatureSet, Rows, glyph_set, photo_sets
from measure import into, write
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import surefind as sf
from surefind import metrics
from surefind.confidence.calibrate import columns_of, distance_ratio, own_queries
from surefind.confidence.calibration import Calibrated
from surefind.confidence.conformal import novelty_values
from surefind.confidence.evidence import COLUMNS, SOURCES
from surefind.confidence.labelled_queries import (
    CalibrationData,
    QueryVariance,
    checked_gallery,
    collect_calibration_data,
)
from surefind.confidence.match_model import fit_confidence
from surefind.confidence.neighbours import LocalDensity
from surefind.confidence.variance_heads import VarianceHeads
from surefind.engines.base import Space

RESULTS = Path(__file__).parent / "results"
PRECISIONS = (0.7, 0.9)  # guaranteed with a probability of 0.9
LABELLED = (20, 50, 100)  # classes
FUSED = "surefind's confidence"
SUREST = "- of its first hit, the surest"
MEASURES = ("auroc", "aurc", "ece")
Numbers = NDArray[np.float64]
Kept = dict[str, Any]  # the precision, None where nothing was guaranteed; the share answered


def index_of(features: FeatureSet, rows: Rows, folder: Path) -> sf.Index:
    embeddings = features.embeddings[rows.tolist()]
    space = Space(embeddings.family, embeddings.dim, "mean")
    index = sf.Index.create_empty(folder, space, fingerprint="benchmark")
    facts = [{"label": label} for label in features.labels[rows].tolist()]
    index.add_embeddings(embeddings, [str(row) for row in rows], metadata=facts)
    return index


def ask(index: sf.Index, heads: VarianceHeads | None, *, but: Collection[str] = ()) -> CalibrationData:
    """Images of an index, of classes that the heads never saw, each asked of the others."""
    engine = index._engine
    queries, around = own_queries(engine), LocalDensity.of(engine)
    others = [row for row, facts in enumerate(queries.facts) if facts["label"] not in but]
    queries = queries.at(np.array(others))
    log_var = np.zeros(len(queries.embeddings)) if heads is None else heads.log_var(queries.embeddings.mean)
    query_variance = QueryVariance(heads, log_var)
    gallery = checked_gallery(engine)
    return collect_calibration_data(engine, queries, around, query_variance=query_variance, gallery=gallery)


def calibrate(index: sf.Index, precision: float, **labelled: Any) -> Calibrated:
    """As a user does."""
    index.calibrate(**labelled, use_labels=False, targets=sf.CalibrationTargets(precision=precision))
    assert index.calibrated is not None
    return index.calibrated


def kept(calibrated: Calibrated, asked: CalibrationData) -> Kept:
    """The precision of what is called a match, and how many queries are."""
    judged = calibrated.calibration.judge(asked.neighbourhood)
    sure, right = np.array(judged.verdict) == "match", surest(judged.confidence, asked)[1]
    if calibrated.calibration.guarantee.threshold is None or not sure.any():
        return {"precision": None, "answered": 0.0}
    return {"precision": float(right[sure].mean()), "answered": float(sure.mean())}


def surest(confidence: Numbers, asked: CalibrationData) -> tuple[Numbers, NDArray[np.bool_]]:
    """Confidence of the first hit, which is the surest, and whether it is right."""
    first = confidence.argmax(axis=1)
    rows = np.arange(len(first))
    return confidence[rows, first], asked.match[rows, first]


def split_rows(fit: CalibrationData, test: CalibrationData) -> Iterator[tuple[str, Numbers, Numbers]]:
    """Uncertainty and probability of the first hits to be judged, by ever more evidence."""
    right = fit.match[:, 0]
    for name, of in (
        ("nearest distance (cosine) + Platt", lambda asked: asked.neighbourhood.distance[:, 0]),
        ("d₁/d₂₀ + Platt", lambda asked: distance_ratio(asked.neighbourhood.profile)),
    ):
        own, other = (np.log(np.maximum(of(asked), 1e-12))[:, None] for asked in (fit, test))
        scale = own.mean(), own.std()
        platt = LogisticRegression(C=1e3).fit((own - scale[0]) / scale[1], right)
        yield name, other[:, 0], platt.predict_proba((other - scale[0]) / scale[1])[:, 1]
    usable = columns_of(fit.neighbourhood)
    sources = [name for name in SOURCES if any(COLUMNS[c].source == name for c in usable)]
    for count in range(1, len(sources) + 1):
        names = [column for column in usable if COLUMNS[column].source in sources[:count]]
        model, _ = fit_confidence(fit.neighbourhood, fit.match, fit.fold, names=names)
        confidence = model.confidence(test.neighbourhood)[:, 0]
        yield ("+ " if count > 1 else "") + sources[count - 1], -confidence, confidence


def judged(uncertainty: Numbers, probability: Numbers, right: NDArray[np.bool_]) -> dict[str, float]:
    order, sure, true = (torch.from_numpy(x.copy()) for x in (uncertainty, probability, right))
    return {
        "auroc": metrics.auroc(order, ~true),
        "aurc": metrics.aurc(order, ~true),
        "ece": metrics.debiased_calibration_error(sure, true),
        "brier": float(metrics.brier_score(sure, true).mean()),
    }


def measure_split(features: FeatureSet, fit: Rows, test: Rows) -> dict[str, Any]:
    with (
        TemporaryDirectory() as folder,
        index_of(features, fit, Path(folder) / "fit") as first,
        index_of(features, test, Path(folder) / "test") as second,
    ):
        made = {precision: calibrate(first, precision) for precision in PRECISIONS}
        calibrated = made[PRECISIONS[0]]
        asked = ask(second, calibrated.heads)
        right = asked.match[:, 0]
        rows = {name: judged(*values, right) for name, *values in split_rows(ask(first, None), asked)}
        confidence = calibrated.calibration.model.confidence(asked.neighbourhood)
        sure = confidence[:, 0]
        rows[FUSED] = judged(-sure, sure, right)
        first, first_right = surest(confidence, asked)
        rows[SUREST] = judged(-first, first, first_right)
        strange = np.log(second.nearest(features.foreign, 1).ranked_by[:, 0])
    values = torch.from_numpy(np.concatenate([novelty_values(asked.neighbourhood.profile), strange]))
    return {
        "right": {"fit": calibrated.calibration.quality.right, "test": float(right.mean())},
        "surest right": float(first_right.mean()),
        "rows": rows,
        "floor": metrics.calibration_floor(torch.from_numpy(sure)),
        "guarantees": {str(precision): kept(one, asked) for precision, one in made.items()},
        "novelty": metrics.auroc(values, torch.arange(len(values)) >= len(right)),
    }


def measure_labelled(features: FeatureSet, draws: int) -> dict[str, list[Kept]]:
    """Guarantees from so many labelled classes in a gallery of all, kept by the other classes."""
    found = defaultdict[str, list[Kept]](list)
    everything = np.arange(len(features.labels))
    with TemporaryDirectory() as folder, index_of(features, everything, Path(folder) / "all") as index:
        for count in LABELLED:
            if len(features.classes) < count + 20:
                continue
            for seed in range(draws):
                draw = np.random.default_rng([count, seed])
                classes = draw.permutation(features.classes)[:count].tolist()
                rows = features.rows_of(classes)
                calibrated = calibrate(
                    index, 0.9, labelled=features.embeddings[rows.tolist()], labels=features.labels[rows].tolist()
                )
                asked = ask(index, calibrated.heads, but=classes)
                found[str(count)].append(kept(calibrated, asked))
    return dict(found)


def spread(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def kept_words(every: list[Kept], precision: float) -> str:
    made = [one["precision"] for one in every if one["precision"] is not None]
    answered = f"{np.mean([one['answered'] for one in every]):.0%}"
    if not made:
        return f"{answered}; none made"
    held = sum(one >= precision for one in made)
    lowest = f", lowest {min(made):.3f}" if held < len(made) else ""
    return f"{answered}; {held} of {len(made)}{lowest}"


def markdown(found: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["| | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]

    def row(name: str, cell: Any) -> None:
        cells = (cell(list(result["splits"].values()), result) for result in found.values())
        lines.append(f"| {name} | " + " | ".join(cells) + " |")

    def evidence(splits: list[Any], kind: str) -> str:
        if kind not in splits[0]["rows"]:
            return "-"
        auroc, aurc, ece = ([one["rows"][kind][what] for one in splits] for what in MEASURES)
        return f"{spread(auroc)}; {np.mean(aurc):.3f}; {np.mean(ece):.3f}"

    row("R@1", lambda splits, _: spread([one["right"]["test"] for one in splits]))
    kinds = (next(iter(result["splits"].values()))["rows"] for result in found.values())
    for kind in max(kinds, key=len):
        row(kind, lambda splits, _, kind=kind: evidence(splits, kind))
    row(
        "confidence, official split; its reverse: AUROC",
        lambda splits, _: "; ".join(f"{one['rows'][FUSED]['auroc']:.3f}" for one in splits[:2]),
    )
    row("ECE of a perfect model", lambda s, _: f"{np.mean([one['floor'] for one in s]):.3f}")
    row(
        "not in the catalogue: AUROC by distance; by black bars alone",
        lambda s, result: f"{np.mean([one['novelty'] for one in s]):.3f}; {result['bars']:.3f}",
    )
    for precision in PRECISIONS:
        row(
            f"guaranteed {precision}: answered; kept",
            lambda s, _, p=precision: kept_words([one["guarantees"][str(p)] for one in s], p),
        )
    for count in LABELLED:
        if all(str(count) in result["labelled"] for result in found.values()):
            row(
                f"guaranteed 0.9 from {count} classes: answered; kept",
                lambda _, result, count=count: kept_words(result["labelled"][str(count)], 0.9),
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("SUREFIND_DATA", "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--glyphs", type=Path, help="model trained on glyphs")
    parser.add_argument("--backbones", nargs="*", choices=list(PHOTOS), default=list(PHOTOS), help="of the photos")
    parser.add_argument("--keep", type=Path, default=Path(".cache/embeddings"))
    parser.add_argument("--draws", type=int, default=10, help="of labelled classes")
    parser.add_argument("--into", type=Path, help="a document with a place for the tables")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "confidence.json")
    arguments = parser.parse_args()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    found = {}
    sets = list[FeatureSet]()
    if arguments.backbones:
        sets += photo_sets(arguments.data, arguments.keep, backbones=arguments.backbones)
    if arguments.glyphs is not None:
        sets.append(glyph_set(arguments.glyphs, arguments.keep))
    for features in sets:
        found[features.name] = {
            "splits": {name: measure_split(features, *rows) for name, *rows in features.splits()},
            "labelled": measure_labelled(features, arguments.draws),
            "bars": features.bars,
        }
        print(markdown({features.name: found[features.name]}), flush=True)
        write({"features": found}, arguments.output)
    if arguments.into is not None:
        into(arguments.into, "confidence", markdown(found))


if __name__ == "__main__":
    main()
