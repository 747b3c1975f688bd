"""Fit the prior calibration that ships with the package: src/surefind/confidence/prior.json.

python tools/fit_prior.py VECTORS.npz... [-o FILE]

Each file holds `vectors` and `labels` of images whose classes their encoder was not trained with.
Every set counts alike, in its whole gallery and in thinned ones.
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import surefind as sf
from surefind.confidence import label_model
from surefind.confidence.calibrate import own_queries
from surefind.confidence.class_table import ClassTable
from surefind.confidence.label_calibration import THINNED_WEIGHT, LabelData, collect_label_data
from surefind.confidence.label_model import LabelModel, LabelNeighbourhood, fit_label_model
from surefind.engines.base import Rows, Space
from surefind.engines.registry import create_engine
from surefind.vectors.reader import as_points, read_vectors

FILE = Path(label_model.__file__).with_name(label_model.PRIOR_FILE)
QUERIES = 2000.0  # that each set counts as
PENALTY = 1.0


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


def fit_prior(sets: Iterable[LabelData]) -> LabelModel:
    near, own, weights = [], [], []
    for data in sets:
        parts = [(np.arange(len(data.own)), data.near, 1.0)]
        parts += [(rows, its, THINNED_WEIGHT) for rows, its in data.thinned]
        total = sum(weight * len(rows) for rows, _, weight in parts)
        for rows, its, weight in parts:
            near.append(its)
            own.append(data.own[rows])
            weights.append(np.full(len(rows), weight * QUERIES / total))
    return fit_label_model(
        LabelNeighbourhood.joined(near),
        np.concatenate(own),
        weights=np.concatenate(weights),
        penalty=PENALTY,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vectors", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=FILE)
    arguments = parser.parse_args()
    sets = []
    for path in arguments.vectors:
        given = read_vectors(path)
        sets.append(label_data(as_points(given.values), given.labels))
    model = asdict(fit_prior(sets))
    rounded = {
        name: [round(number, 4) for number in its] if isinstance(its[0], float) else its
        for name, its in model.items()
        if isinstance(its, tuple)
    }
    text = json.dumps({**rounded, "bias": round(model["bias"], 4)}, indent=1)
    arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
