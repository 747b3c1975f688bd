"""Labels of the gallery as evidence: detection, calibration, guarantees, unknown classes, ranking.

python benchmarks/labels.py [--data DATA] [--glyphs MODEL] [--draws 10] [--into DOCUMENT]

Means over seven splits of the classes into those fitted to and those judged: the official split,
its reverse, five random ones. The prior is fitted to the other sets, never to the judged one.
"""

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from feature_sets import FeatureSet, Rows, glyph_set, photo_sets
from measure import into, write
from numpy.typing import NDArray

import surefind as sf
from surefind import metrics
from surefind.confidence.calibrate import embedded_queries
from surefind.confidence.calibration import Calibration, Origin, label_answers
from surefind.confidence.class_table import ClassTable
from surefind.confidence.label_calibration import (
    LabelData,
    collect_label_data,
    fit_label_calibration,
    fit_labels,
    vote_of,
)
from surefind.confidence.label_model import LabelModel, LabelNeighbourhood, label_columns
from surefind.engines.base import Engine, Space
from surefind.engines.base import Rows as EngineRows
from surefind.engines.registry import create_engine

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from fit_prior import fit_prior, galleries, label_data

RESULTS = Path(__file__).parent / "results"
TARGETS = sf.CalibrationTargets(precision=0.9)
ORIGIN = Origin("", "mean", "", "", 0, 0, 0, 0)
FIVE = 5  # times as many or as few images
Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]
Figures = dict[str, float]


def chosen(data: LabelData, classes: Sequence[int]) -> LabelData:
    """The queries of some classes."""
    keep = np.isin(data.own, classes)
    new = np.cumsum(keep) - 1

    def some(rows: NDArray[np.int64], near: LabelNeighbourhood) -> Any:
        return new[rows[keep[rows]]], near.at(keep[rows])

    codes = np.unique(data.class_codes[keep], return_inverse=True)[1]
    return data._replace(
        near=data.near.at(keep),
        own=data.own[keep],
        class_codes=codes,
        has_match=data.has_match[keep],
        unknown=some(*data.unknown),
        fold=data.fold[keep] if len(np.unique(data.fold[keep])) > 1 else codes % 5,
    )


def detection(sure: Numbers, right: Flags) -> Figures:
    probability, correct = torch.from_numpy(sure.copy()), torch.from_numpy(right.copy())
    return {
        "auroc": metrics.auroc(-probability, ~correct),
        "ece": metrics.debiased_calibration_error(probability, correct),
    }


@dataclass
class Judged:
    """What a model says of queries."""

    nearest: Figures  # of the nearest image
    answer: Figures  # of the label
    right: float
    nearest_right: float


def judged(model: LabelModel, data: LabelData) -> Judged:
    found = model.probabilities(data.near)
    answers = label_answers(found.each, found.first, data.near.code)
    right = answers.code[:, 0] == data.own
    nearest = data.right[:, 0]
    return Judged(
        detection(found.each[:, 0], nearest),
        detection(answers.probability[:, 0], right),
        float(right.mean()),
        float(nearest.mean()),
    )


def vote_share(near: LabelNeighbourhood) -> Numbers:
    """Share of the label of the nearest image among the ten nearest."""
    return np.asarray((near.code[:, :10] == near.code[:, :1]).mean(axis=1))


def guarantee(calibration: Calibration, data: LabelData) -> dict[str, float | None]:
    """Precision of what is called a match, and the share that is."""
    judgement = calibration.judge_labels(data.near)
    assert judgement.labels is not None
    sure = np.array(judgement.verdict) == "match"
    if calibration.guarantee.threshold is None or not sure.any():
        return {"precision": None, "answered": 0.0}
    right = judgement.labels.code[:, 0] == data.own
    return {"precision": float(right[sure].mean()), "answered": float(sure.mean())}


def ranking(model: LabelModel, data: LabelData) -> Figures:
    """R@1 and mAP@10 of the twenty nearest, by distance and by probability."""
    found = model.probabilities(data.near)
    order = np.argsort(-found.each, axis=1, kind="stable")
    matches = torch.from_numpy(np.maximum(data.right.sum(axis=1), 10))  # AP@10 needs no more
    by_mean = torch.from_numpy(data.right)
    by_confidence = torch.from_numpy(np.take_along_axis(data.right, order, axis=1))
    return {
        f"{what} {name}": float(value.mean())
        for name, hits in (("mean", by_mean), ("confidence", by_confidence))
        for what, value in (
            ("R@1", metrics.hit_at_k(hits, 1)),
            ("mAP@10", metrics.average_precision_at_k(hits, matches, 10)),
        )
    }


def engine_of(features: FeatureSet, rows: Rows, folder: str) -> Engine:
    embeddings = features.embeddings[rows.tolist()]
    engine = create_engine(folder, Space(embeddings.family, embeddings.dim, "mean"), {"fingerprint": "b"}, kind="flat")
    facts = tuple({"label": label} for label in features.labels[rows].tolist())
    ids = tuple(map(str, rows.tolist()))
    engine.add(EngineRows(ids, embeddings, ("",) * len(ids), facts))
    return engine


def unknown_queries(features: FeatureSet, rows: Rows, others: Rows) -> LabelNeighbourhood:
    """Queries of other classes than those of the gallery."""
    with TemporaryDirectory() as folder:
        engine = engine_of(features, rows, folder)
        queries = embedded_queries(features.embeddings[others.tolist()], features.labels[others].tolist())
        data = collect_label_data(engine, queries, ClassTable.of(engine))
        engine.close()
    return data.near


def open_gallery(
    calibration: Calibration, mixed: Calibration, data: LabelData, unknown: LabelNeighbourhood
) -> dict[str, float | None]:
    """Own and unknown queries mixed, those unknown counted as wrong."""
    both = LabelNeighbourhood.joined([data.near, unknown])
    known = np.arange(len(both.code)) < len(data.own)
    own = np.r_[data.own, np.full(len(unknown.code), -2)]
    judgement = calibration.judge_labels(both)
    assert judgement.labels is not None and calibration.known is not None
    right = judgement.labels.code[:, 0] == own
    vote, uncertainty = vote_of(both)
    score = calibration.known.log_odds(label_columns(both).known)
    told = mixed.judge_labels(both)  # half of the queries unknown, as it was told
    assert told.labels is not None
    told_right = told.labels.code[:, 0] == own
    sure, told_sure = (np.array(its.verdict) == "match" for its in (judgement, told))

    def area(confidence: Numbers, correct: Flags) -> float:
        return metrics.aurc(torch.from_numpy(-confidence), torch.from_numpy(~correct))

    voted = area(-uncertainty, vote == own)
    return {
        "known AUROC": metrics.auroc(torch.from_numpy(score), torch.from_numpy(known)),
        "AURC to vote": area(judgement.labels.probability[:, 0], right) / voted,
        "AURC to vote, with --unknown 0.5": area(told.labels.probability[:, 0], told_right) / voted,
        "precision of match": float(right[sure].mean()) if sure.any() else None,
        "precision of match, with --unknown 0.5": float(told_right[told_sure].mean()) if told_sure.any() else None,
        "share of match, with --unknown 0.5": float(told_sure.mean()),
    }


def fifths(features: FeatureSet, rows: Rows) -> list[Rows]:
    """Five galleries, each with a fifth of the images of every class."""
    random = np.random.default_rng(0)
    place = np.empty(len(rows), np.int64)
    for label in np.unique(features.labels[rows]):
        mine = np.flatnonzero(features.labels[rows] == label)
        place[random.permutation(mine)] = np.arange(len(mine)) % FIVE
    return [rows[place == number] for number in range(FIVE)]


def data_of(features: FeatureSet, rows: Rows) -> LabelData:
    return label_data(features.embeddings[rows.tolist()], features.labels[rows].tolist())


def measure_split(features: FeatureSet, fit: Rows, test: Rows, prior: LabelModel) -> dict[str, Any]:
    first, second = data_of(features, fit), data_of(features, test)
    calibration = fit_label_calibration(first, ORIGIN, TARGETS, prior)
    assert isinstance(calibration.model, LabelModel)
    model = calibration.model
    small = [data_of(features, rows) for rows in fifths(features, test)]
    grown = [fit_labels(data_of(features, rows), prior).model for rows in fifths(features, fit)]
    own = judged(model, second)
    result = {
        "nearest": own.nearest,
        "label": own.answer,
        "right": own.right,
        "R@1": own.nearest_right,
        "vote": detection(vote_share(second.near), second.right[:, 0])["auroc"],
        "prior": judged(prior, second).nearest,
        "guarantee": guarantee(calibration, second),
        "ranking": ranking(model, second),
        "five times fewer": error([model.probabilities(data.near).each for data in small], small),
        "five times fewer, fitted again": error([fit_labels(data, prior).each for data in small], small),
        "five times more": mean([judged(one, second).nearest["ece"] for one in grown]),
        "five times more, fitted again": error([fit_labels(second, prior).each], [second]),
    }
    half = np.random.default_rng(0).permutation(np.unique(features.labels[test]))
    known = test[np.isin(features.labels[test], half[: len(half) // 2])]
    others = np.setdiff1d(test, known)
    mixed = fit_label_calibration(first, ORIGIN, replace(TARGETS, unknown_share=0.5), prior)
    result["open"] = open_gallery(
        calibration, mixed, data_of(features, known), unknown_queries(features, known, others)
    )
    return result


def error(each: list[Numbers], data: list[LabelData]) -> float:
    """ECE of the nearest image, of the queries to several galleries together."""
    sure = np.concatenate([its[: len(one.own), 0] for its, one in zip(each, data, strict=True)])
    return detection(sure, np.concatenate([its.right[:, 0] for its in data]))["ece"]


def few_classes(data: LabelData, prior: LabelModel, count: int, draws: int) -> dict[str, Any]:
    """Fitted to queries of some classes in a gallery of all, judged by the others."""
    found = defaultdict(list)
    classes = np.unique(data.own)
    for seed in range(draws):
        drawn = np.random.default_rng([count, seed]).permutation(classes)
        labelled, others = chosen(data, drawn[:count]), chosen(data, drawn[count:])
        calibration = fit_label_calibration(labelled, ORIGIN, TARGETS, prior)
        assert isinstance(calibration.model, LabelModel)
        found["ece"].append(judged(calibration.model, others).nearest["ece"])
        found["prior ece"].append(judged(prior, others).nearest["ece"])
        kept = guarantee(calibration, others)
        found["answered"].append(kept["answered"])
        found["precision"].append(kept["precision"])
    return dict(found)


def mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else float("nan")


def kept_words(values: Sequence[float | None]) -> str:
    made = [value for value in values if value is not None]
    held = sum(value >= TARGETS.precision for value in made)
    return f"{held} of {len(made)}" + (f", lowest {min(made):.3f}" if held < len(made) else "")


def markdown(found: dict[str, Any], across: dict[str, float]) -> str:
    lines = ["| | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]

    def row(name: str, figure: Any) -> None:
        cells = (figure(list(result["splits"].values()), result) for result in found.values())
        lines.append(f"| {name} | " + " | ".join(cells) + " |")

    def three(values: Sequence[float | None]) -> str:
        return f"{mean(values):.3f}"

    row("R@1, nearest image", lambda splits, _: three([one["R@1"] for one in splits]))
    row("label accuracy", lambda splits, _: three([one["right"] for one in splits]))
    for what, name in (("nearest", "nearest image"), ("label", "label")):
        for key, title in (("auroc", "AUROC of a wrong"), ("ece", "ECE (debiased) of the")):
            row(f"{title} {name}", lambda splits, _, what=what, key=key: three([one[what][key] for one in splits]))
    row("- AUROC of the label's share among ten", lambda s, _: three([o["vote"] for o in s]))
    row("- ECE of the prior of other sets", lambda s, _: three([o["prior"]["ece"] for o in s]))
    row(
        "answered at a guaranteed 0.9; kept",
        lambda splits, _: (
            f"{mean([one['guarantee']['answered'] for one in splits]):.0%}; "
            + kept_words([one["guarantee"]["precision"] for one in splits])
        ),
    )
    for count in (20, 10):
        row(
            f"- {count} labelled classes: answered; kept; ECE; of the prior",
            lambda _, result, count=count: (
                f"{mean(result['few'][str(count)]['answered']):.0%}; "
                f"{kept_words(result['few'][str(count)]['precision'])}; "
                f"{mean(result['few'][str(count)]['ece']):.3f}; "
                f"{mean(result['few'][str(count)]['prior ece']):.3f}"
            ),
        )
    for name in ("fewer", "more"):
        row(
            f"ECE with five times {name} images; fitted again",
            lambda splits, _, name=name: (
                three([one[f"five times {name}"] for one in splits])
                + "; "
                + three([one[f"five times {name}, fitted again"] for one in splits])
            ),
        )
    for name in (
        "known AUROC",
        "AURC to vote",
        "AURC to vote, with --unknown 0.5",
        "precision of match",
        "precision of match, with --unknown 0.5",
        "share of match, with --unknown 0.5",
    ):
        row(
            f"half the queries unknown: {name}",
            lambda splits, _, name=name: three([one["open"][name] for one in splits]),
        )
    for what in ("R@1", "mAP@10"):
        row(
            f"{what} by mean distance → by confidence",
            lambda splits, _, what=what: (
                three([one["ranking"][f"{what} mean"] for one in splits])
                + " → "
                + three([one["ranking"][f"{what} confidence"] for one in splits])
            ),
        )
    lines += ["", "| fitted to → judged by | ECE |", "|---|---|"]
    lines += [f"| {name} | {error:.3f} |" for name, error in across.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("SUREFIND_DATA", "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--glyphs", type=Path, help="model trained on glyphs")
    parser.add_argument("--keep", type=Path, default=Path(".cache/embeddings"))
    parser.add_argument("--draws", type=int, default=10, help="of labelled classes")
    parser.add_argument("--into", type=Path, help="a document with a place for the tables")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "labels.json")
    arguments = parser.parse_args()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    sets = list(photo_sets(arguments.data, arguments.keep, backbones=["MobileNetV2"]))
    if arguments.glyphs is not None:
        sets.append(glyph_set(arguments.glyphs, arguments.keep))
    every = {one.name: galleries(one.embeddings, one.labels.tolist()) for one in sets}
    found, across = dict[str, Any](), dict[str, float]()
    for features in sets:
        name = features.name
        prior = fit_prior([data for other, data in every.items() if other != name])
        found[name] = {
            "splits": {split: measure_split(features, fit, test, prior) for split, fit, test in features.splits()},
            "few": {str(count): few_classes(every[name][0], prior, count, arguments.draws) for count in (10, 20)},
        }
        for other, data in every.items():
            if other != name:
                rest = [its for third, its in every.items() if third not in (name, other)]
                model = fit_labels(every[name][0], fit_prior(rest)).model if rest else prior
                across[f"{name} → {other}"] = judged(model, data[0]).nearest["ece"]
        print(markdown({name: found[name]}, across), flush=True)
        write({"sets": found, "across": across}, arguments.output)
    if arguments.into is not None:
        into(arguments.into, "labels", markdown(found, across))


if __name__ == "__main__":
    main()
