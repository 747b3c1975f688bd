"""Fit the prior calibration that ships with the package: src/surefind/confidence/prior.json.

python tools/fit_prior.py --glyphs MODEL [--data DATA] [-o FILE]

Birds, cars and glyphs as in benchmarks/labels.py, of classes that their encoders were not trained
with. Every set counts alike, in its whole gallery and in thinned ones: so the size of a gallery is
a column of the model and not a hidden assumption.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import surefind as sf
from surefind.confidence import label_model
from surefind.confidence.calibrate import own_queries
from surefind.confidence.class_table import ClassTable
from surefind.confidence.label_calibration import LabelData, collect_label_data, fit_label_model
from surefind.confidence.label_model import CLASS_COLUMNS, QUERY_COLUMNS, LabelModel, LabelNeighbourhood, label_columns
from surefind.engines.base import Rows, Space
from surefind.engines.registry import create_engine

FILE = Path(label_model.__file__).with_name(label_model.PRIOR_FILE)
# Shares of the classes, and of the images of each, that are left in thinned galleries.
THINNED = ((1.0, 0.5), (1.0, 0.25), (0.5, 1.0), (0.5, 0.5), (0.25, 1.0))
THINNED_WEIGHT = 0.2  # of a query in a thinned gallery; 1 in the whole one
QUERIES = 2000.0  # that each set counts as
PENALTY = 1.0


def standardisation(near: LabelNeighbourhood) -> LabelModel:
    """Return a model with weights 0 and the ranges, means and deviations of columns."""
    columns = label_columns(near)
    both = (columns.of_class[columns.first], columns.of_query)
    low, high = (np.concatenate([np.quantile(its, share, axis=0) for its in both]) for share in (0.001, 0.999))
    centre, scale = (np.concatenate([how(its, axis=0) for its in both]) for how in (np.mean, np.std))
    return LabelModel(
        names=(*CLASS_COLUMNS, *QUERY_COLUMNS),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
        centre=tuple(centre.tolist()),
        scale=tuple(np.maximum(scale, 1e-6).tolist()),
        weights=(0.0,) * len(low),
        temperature=(0.0,) * len(QUERY_COLUMNS),
        bias=0.0,
    )


def label_data(embeddings: sf.Embeddings, labels: Iterable[str]) -> LabelData:
    """Each vector searched among the others."""
    names = [str(label) for label in labels]
    with TemporaryDirectory() as folder:
        space = Space(embeddings.family, embeddings.dim, "mean")
        engine = create_engine(folder, space, {"fingerprint": "prior"}, kind="flat")
        ids = tuple(map(str, range(len(names))))
        facts = tuple({"label": name} for name in names)
        engine.add(Rows(ids, embeddings, ("",) * len(ids), facts))
        data = collect_label_data(engine, own_queries(engine), ClassTable.of(engine))
        engine.close()
    return data


def galleries(embeddings: sf.Embeddings, labels: Sequence[str]) -> list[LabelData]:
    """The whole gallery of a set, and thinned ones."""
    random, names = np.random.default_rng(0), np.array(labels)
    found = [label_data(embeddings, labels)]
    for classes, images in THINNED:
        every = random.permutation(np.unique(names))
        some = np.isin(names, every[: max(2, round(classes * len(every)))])
        rows = np.flatnonzero(some & (random.random(len(names)) < images))
        found.append(label_data(embeddings[rows.tolist()], names[rows].tolist()))
    return found


def fit_prior(sets: Iterable[Sequence[LabelData]]) -> LabelModel:
    """Mean of the models of each set, so that sizes differ within sets only, not between them."""
    every = list(sets)
    base = standardisation(LabelNeighbourhood.joined([data.near for one in every for data in one]))
    models = []
    for whole, *thinned in every:
        parts = [(whole, 1.0), *((data, THINNED_WEIGHT) for data in thinned)]
        total = sum(weight * len(data.own) for data, weight in parts)
        models.append(
            fit_label_model(
                LabelNeighbourhood.joined([data.near for data, _ in parts]),
                np.concatenate([data.own for data, _ in parts]),
                base,
                weights=np.concatenate([np.full(len(data.own), weight * QUERIES / total) for data, weight in parts]),
                penalty=PENALTY,
            )
        )
    weights, temperature, bias = (
        np.mean([getattr(model, name) for model in models], axis=0) for name in ("weights", "temperature", "bias")
    )
    return replace(base, weights=tuple(weights.tolist()), temperature=tuple(temperature.tolist()), bias=float(bias))


def main() -> None:
    sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
    from feature_sets import glyph_set, photo_sets

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("SUREFIND_DATA", "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--glyphs", type=Path, required=True, help="model trained on glyphs")
    parser.add_argument("--keep", type=Path, default=Path(".cache/embeddings"))
    parser.add_argument("-o", "--output", type=Path, default=FILE)
    arguments = parser.parse_args()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    sets = [
        *photo_sets(arguments.data, arguments.keep, backbones=["MobileNetV2"]),
        glyph_set(arguments.glyphs, arguments.keep),
    ]
    model = asdict(fit_prior(galleries(one.embeddings, one.labels.tolist()) for one in sets))
    rounded = {
        name: [round(number, 4) for number in its] if isinstance(its[0], float) else its
        for name, its in model.items()
        if isinstance(its, tuple)
    }
    text = json.dumps({**rounded, "bias": round(model["bias"], 4)}, indent=1)
    arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
