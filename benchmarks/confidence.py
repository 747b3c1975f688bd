"""How well wrong first hits and foreign queries are told, and whether promises are kept.

python benchmarks/confidence.py [--data DATA] [--glyphs MODEL] [--splits 500] [--into DOCUMENT]

Everything is fitted to one set of classes and judged on another; intervals resample whole classes.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from feature_sets import PHOTOS, FeatureSet, Labelled, glyph_set, photo_sets
from measure import write
from numpy.typing import NDArray
from promises import Kept, kept_promises

import surefind as sf
from surefind import metrics
from surefind.engines.space import Space
from surefind.metrics.bootstrap import Estimate, resample_counts
from surefind.reports.reproduce.markdown import into
from surefind.search.calibrating import own_queries
from surefind.search.confidence.calibrated import doubt_of
from surefind.search.confidence.fitting import columns_of
from surefind.search.confidence.model import fit_confidence
from surefind.search.confidence.observed import Observed, novelty_values
from surefind.search.confidence.observing import Doubt, observe
from surefind.search.doubt import fit_variance_heads
from surefind.search.evidence.columns import COLUMNS, SOURCES
from surefind.search.evidence.seen import Numbers, Seen
from surefind.search.neighbourhoods import Neighbourhoods

RESULTS = Path(__file__).parent / "results"
RESAMPLES = 1000
BASELINES: dict[str, tuple[str, ...]] = {
    "nearest distance": ("distance",),
    "d1, d2": ("distance", "next"),
    "d1, d10": ("distance", "query_to_10"),
}


class Asked(NamedTuple):
    """One set of classes: each image asked of the others, and foreign ones asked too."""

    observed: Observed
    foreign: Numbers | None  # how strange they are


def ask(part: Labelled, doubt: Doubt, foreign: sf.Embeddings | None = None) -> Asked:
    """Through an index, as a user would."""
    space = Space(part.embeddings.family, part.embeddings.dim, "mean")
    with TemporaryDirectory() as folder:
        index = sf.Index.create_empty(Path(folder) / "index", space, fingerprint="benchmark")
        ids = [str(row) for row in range(len(part.labels))]
        facts = [{"label": label} for label in part.labels]
        index.add_embeddings(part.embeddings, ids, metadata=facts)
        engine = index._engine
        around = Neighbourhoods.of(engine, ranking="mean")
        observed = observe(engine, own_queries(engine), around, ranking="mean", doubt=doubt)
        strange = None if foreign is None else np.log(index.nearest(foreign, 1).ranked_by[:, 0])
        index.close()
    return Asked(observed, strange)


def both_parts(features: FeatureSet) -> tuple[Asked, Asked]:
    """To calibrate on and to test; the doubt of both is that of heads of other classes."""
    fitted = fit_variance_heads(features.fit.embeddings.mean, features.fit.labels)
    known = torch.stack([fitted.log_var, fitted.disagreement], dim=1).double().numpy()
    unseen = doubt_of(fitted.heads, features.test.embeddings.mean)
    return (
        ask(features.fit, Doubt(fitted.heads, known)),
        ask(features.test, Doubt(fitted.heads, unseen), features.foreign),
    )


def upgraded(features: FeatureSet) -> Numbers:
    """Confidence of the first hits, from an upgrade of the vectors alone."""
    upgrade = sf.calibrate(features.fit.embeddings.mean, features.fit.labels)
    embeddings = upgrade.embed(features.test.embeddings.mean)
    doubt = Doubt(upgrade.heads, doubt_of(upgrade.heads, embeddings.mean))
    asked = ask(Labelled(embeddings, features.test.labels), doubt)
    return upgrade.calibration.model.confidence(asked.observed.seen)[:, 0]


def column_sets(seen: Seen) -> dict[str, tuple[str, ...]]:
    """Sources added one after the other, then each left out of all."""
    usable = columns_of(seen)
    sources = [name for name in SOURCES if any(COLUMNS[c].source == name for c in usable)]

    def of(chosen: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in usable if COLUMNS[name].source in chosen)

    sets = dict(BASELINES)
    for count in range(1, len(sources) + 1):
        label = "fused: all" if count == len(sources) else "+ " + sources[count - 1]
        sets[label] = of(sources[:count])
    for source in sources:
        sets[f"all but {source}"] = of([name for name in sources if name != source])
    return sets


def judged(
    confidence: Numbers, right: NDArray[np.bool_], groups: NDArray[np.int64]
) -> dict[str, Estimate]:
    """Intervals resample classes."""
    sure, true = torch.from_numpy(confidence.copy()), torch.from_numpy(right.copy())
    drawn = resample_counts(int(groups.max()) + 1, RESAMPLES, seed=0)
    weights = torch.cat([torch.ones(1, len(groups)), drawn[:, torch.from_numpy(groups)]])
    error = metrics.brier_score(sure, true).double()
    values = {
        "auroc": metrics.auroc(-sure, ~true, weights=weights),
        "aurc": metrics.aurc(-sure, ~true, weights=weights),
        "ece": metrics.expected_calibration_error(
            sure, true.double(), definition="probability", weights=weights
        ),
        "brier": weights.double() @ error / weights.sum(1).double(),
    }
    return {name: interval(value) for name, value in values.items()}


def interval(values: torch.Tensor) -> Estimate:
    """The first value, and the middle 95 % of the others."""
    low, high = values[1:].double().quantile(torch.tensor([0.025, 0.975], dtype=torch.float64))
    value = float(values[0])
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def measure(features: FeatureSet, splits: int) -> dict[str, Any]:
    fit, test = both_parts(features)
    right, groups = test.observed.match[:, 0], test.observed.groups
    rows, confidences = {}, {}
    for label, names in column_sets(fit.observed.seen).items():
        fitted = fit_confidence(
            fit.observed.seen, fit.observed.match, fit.observed.groups, names=names
        )
        confidences[label] = fitted.model.confidence(test.observed.seen)[:, 0]
        rows[label] = judged(confidences[label], right, groups)
    rows["surefind upgrade, vectors only"] = judged(upgraded(features), right, groups)
    promises = {
        (label, by, of): kept_promises(
            confidences[label], right, groups, by=by, next_half=of == "the next half", splits=splits
        )
        for of in ("the next half", "the long run")
        for by in ("class", "query")
        for label in ("nearest distance", "fused: all")
    }
    return {
        "fit": summary(fit.observed),
        "test": summary(test.observed),
        "rows": rows,
        "promises": promises,
        "novelty": novelty(test),
        "bars": features.bars,
    }


def summary(observed: Observed) -> dict[str, float]:
    return {
        "queries": len(observed.match),
        "classes": observed.classes,
        "right": float(observed.match[:, 0].mean()),
    }


def novelty(test: Asked) -> Estimate:
    """AUROC of foreign queries; intervals resample queries."""
    assert test.foreign is not None
    own = novelty_values(test.observed.seen)
    values = torch.from_numpy(np.concatenate([own, test.foreign]))
    strange = torch.arange(len(values)) >= len(own)
    return metrics.bootstrap(
        lambda weights: metrics.auroc(values, strange, weights=weights), len(values), resamples=200
    )


def markdown(found: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        "| features | evidence | AUROC wrong first hit | AURC | ECE | Brier |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in found.items():
        for label, row in result["rows"].items():
            cells = " | ".join(shown(row[what]) for what in ("auroc", "aurc", "ece", "brier"))
            lines.append(f"| {name} | {label} | {cells} |")
    lines += [
        "",
        "| features | R@1 | foreign: AUROC of the nearest distance | by black bars alone |",
        "|---|---|---|---|",
    ]
    for name, result in found.items():
        right = f"{result['fit']['right']:.3f} / {result['test']['right']:.3f}"
        bars = f"{result['bars']:.3f}"
        lines.append(f"| {name} | {right} | {shown(result['novelty'], 4)} | {bars} |")
    lines += [
        "",
        "| features | a promise about | split by | confidence | promised | kept, other half "
        "| kept, all queries | precision | coverage |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, result in found.items():
        for (label, by, of), kept in result["promises"].items():
            cells = " | ".join(f"{value:.3f}".replace("nan", "-") for value in kept)
            lines.append(f"| {name} | {of} | {by} | {label} | {cells} |")
    return "\n".join(lines) + "\n"


def shown(estimate: Estimate, digits: int = 3) -> str:
    value, low, high = (f"{x:.{digits}f}" for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} ({low} to {high})"


def plain(value: Any) -> Any:
    """Fit for JSON."""
    if isinstance(value, Estimate):
        return vars(value)
    if isinstance(value, Kept):
        return value._asdict()
    if isinstance(value, Mapping):
        return {
            ", ".join(name) if isinstance(name, tuple) else name: plain(inner)
            for name, inner in value.items()
        }
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("SUREFIND_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--glyphs", type=Path, help="model trained on glyphs")
    parser.add_argument(
        "--backbones", nargs="*", choices=list(PHOTOS), default=list(PHOTOS), help="of the photos"
    )
    parser.add_argument("--keep", type=Path, default=Path(".cache/embeddings"))
    parser.add_argument("--splits", type=int, default=500)
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
        found[features.name] = measure(features, arguments.splits)
        print(markdown({features.name: found[features.name]}), flush=True)
    if arguments.into is not None:
        into(arguments.into, "confidence", markdown(found))
    write({"splits": arguments.splits, "features": plain(found)}, arguments.output)


if __name__ == "__main__":
    main()
