"""The demo's tables and the figures of `surefind calibrate`, again, with numpy and scikit-learn.

    surefind demo --json > table.json
    python examples/plain_check.py demo table.json

surefind only reads what is compared: embeddings, confidences, and its own figures.
"""

import json
import sys
from math import erf, exp, inf, pi, sqrt
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold

import surefind as sf


def figures(vectors, labels, gallery, gallery_labels, confidence, sure_right, *, own=False):
    """Share of right answers, AUROC and calibration error by each quantity.

    The queries are `own` vectors of the gallery, each of which searches the others, or different
    ones. AUROC is that of each fold of classes, averaged, where probabilities are cross-fitted.
    """
    squares, others = (vectors**2).sum(1), (gallery**2).sum(1)
    distance = squares[:, None] + others - 2 * vectors @ gallery.T
    if own:
        np.fill_diagonal(distance, inf)
    nearest, d = distance.argmin(1), np.sort(distance)[:, :20]
    right = gallery_labels[nearest] == labels
    folds = list(GroupKFold(5).split(labels, groups=labels))
    cosine = (vectors * gallery[nearest]).sum(1) / np.sqrt(squares * others[nearest])
    platt = np.empty(len(labels))
    for fitted, judged in folds:
        scaled = ((cosine - cosine[fitted].mean()) / cosine[fitted].std())[:, None]
        model = LogisticRegression(C=1e3).fit(scaled[fitted], right[fitted])
        platt[judged] = model.predict_proba(scaled[judged])[:, 1]

    def row(uncertainty, probability=None, right=right):
        parts = [judged for _, judged in folds] if own else [np.arange(len(right))]
        both = [part for part in parts if 0 < right[part].sum() < len(part)]
        auroc = [roc_auc_score(~right[part], uncertainty[part]) for part in both]
        return [right.mean(), np.mean(auroc), *calibration_error(probability, right)]

    return {
        "confidence": row(-confidence, confidence, sure_right),
        "nearest_distance": row(d[:, 0]),
        "ratio_1_10": row(d[:, 0] / d[:, 9]),
        "ratio_1_20": row(d[:, 0] / d[:, 19]),
        "nearest_cosine": row(-cosine, platt),
    }


def calibration_error(probability, right):
    """Debiased, in ten bins of equal count; and that of a perfect model."""
    if probability is None:
        return None, None
    _, place, count = np.unique(probability, return_inverse=True, return_counts=True)
    bins = 10 * (count.cumsum() - count / 2)[place] // len(right)
    error = floor = 0.0
    for inside in (bins == b for b in np.unique(bins)):
        n, share, stated = inside.sum(), right[inside].mean(), probability[inside]
        gap, noise = abs(stated.mean() - share), sqrt(share * (1 - share) / max(n - 1, 1))
        z = gap / noise if noise else inf
        anew = noise * sqrt(2 / pi) * exp(-z * z / 2) + gap * erf(z / sqrt(2))
        error += n / len(right) * (2 * gap - anew)
        floor += n / len(right) * sqrt((stated * (1 - stated)).mean() / n)
    return max(error, 0.0), 2 * (sqrt(2) - 1) / sqrt(pi) * floor


def main(folder: Path, table: Path) -> None:
    stored, asked = np.load(folder / "vectors.npz"), np.load(folder / "vectors-queries.npz")
    gallery, names = stored["vectors"].astype(float), stored["labels"]
    queries, labels = asked["vectors"].astype(float), asked["labels"]
    with sf.Index.open(folder / "vectors-index") as index:
        upgrade = sf.Upgrade.load(folder / "vectors-model")
        found = index.search(upgrade.embed(asked["vectors"]), 20)
        sure = np.array([result.confidence for result in found])
        sure_right = np.array([result.hits[0].label for result in found]) == labels
    with sf.Index.open(folder / "index") as index:
        own = index.items(stored["ids"].tolist()).embeddings.mean.double().numpy()
        ours = index.calibration
    compared = []
    for encoder, vectors, calibration in (
        ("triplet baseline", gallery, upgrade.calibration),
        ("Bayesian encoder", own, ours),
    ):
        q, curve = calibration.quality, calibration.curve
        confidence, right = np.array(curve.confidence), np.array(curve.right)
        plain = figures(vectors, names, vectors, names, confidence, right, own=True)
        for name, theirs in (
            ("nearest_distance", [q.nearest_right, q.baseline_auroc, None, None]),
            ("ratio_1_20", [q.nearest_right, q.ratio_auroc, None, None]),
            ("confidence", [q.right, q.auroc, q.ece, q.floor]),
        ):
            compared.append((f"{encoder}, calibrate, {name}", plain[name], theirs))
    evaluation = json.loads(table.read_text())["evaluations"]["triplet baseline"]
    for name, plain in figures(queries, labels, gallery, names, sure, sure_right).items():
        signal = evaluation["signals"][name]
        theirs = [signal["accuracy"], signal["auroc"]["value"], signal["ece"], signal["floor"]]
        compared.append((f"triplet baseline, evaluate, {name}", plain, theirs))
    print(f"{'right, AUROC, ECE, floor:':46s} {'plain':30s} surefind")
    worst = 0.0
    for name, plain, theirs in compared:
        pairs = [(a, b) for a, b in zip(plain, theirs, strict=True) if b is not None]
        shown = (" ".join(f"{value:.3f}" for value in side) for side in zip(*pairs, strict=True))
        print(f"{name:46s} " + " ".join(f"{side:30s}" for side in shown))
        worst = max(worst, *(abs(a - b) for a, b in pairs))
    sys.exit(f"they differ by up to {worst:.4f}" if worst > 0.001 else 0)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
