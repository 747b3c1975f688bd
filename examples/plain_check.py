"""The demo's table and the figures of `surefind calibrate`, again, with numpy and scikit-learn.

    surefind demo --json > table.json
    python examples/plain_check.py demo table.json

surefind only reads what is compared: embeddings, cross-fitted confidences, and its own figures.
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


def figures(vectors, labels, curve, var=None):
    """R@1, AUROC and calibration error by each quantity; every vector searches the others.

    Confidence is that of the surest hit, the other quantities are about the nearest image.
    """
    squares = (vectors**2).sum(1)
    distance = squares[:, None] + squares - 2 * vectors @ vectors.T
    np.fill_diagonal(distance, inf)
    nearest, d = distance.argmin(1), np.sort(distance)[:, :20]
    right = labels[nearest] == labels
    confidence, sure_right = np.array(curve.confidence), np.array(curve.right)
    folds = list(GroupKFold(5).split(labels, groups=labels))
    cosine = (vectors * vectors[nearest]).sum(1) / np.sqrt(squares * squares[nearest])
    platt = np.empty(len(labels))
    for fitted, judged in folds:
        scaled = ((cosine - cosine[fitted].mean()) / cosine[fitted].std())[:, None]
        model = LogisticRegression(C=1e3).fit(scaled[fitted], right[fitted])
        platt[judged] = model.predict_proba(scaled[judged])[:, 1]

    def row(uncertainty, probability=None, right=right):
        both = [judged for _, judged in folds if 0 < right[judged].sum() < len(judged)]
        within = [roc_auc_score(~right[judged], uncertainty[judged]) for judged in both]
        return [right.mean(), np.mean(within), *calibration_error(probability, right)]

    rows = {"nearest distance": row(d[:, 0]), "cosine + Platt": row(-cosine, platt)}
    rows |= {"d₁/d₂₀": row(d[:, 0] / d[:, 19])}
    rows |= {"confidence": row(-confidence, confidence, sure_right)}
    return rows if var is None else rows | {"learned variance": row(var)}


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
    stored = np.load(folder / "vectors.npz")
    with sf.Index.open(folder / "index") as index:
        own, ours = index.items(stored["ids"].tolist()).embeddings, index.calibration
    theirs = sf.Upgrade.load(folder / "vectors-model").calibration
    plain, compared = {}, []
    for encoder, vectors, var, calibration in (
        ("triplet baseline", stored["vectors"], None, theirs),
        ("Bayesian encoder", own.mean.numpy(), own.spread.numpy(), ours),
    ):
        rows = figures(vectors.astype(float), stored["labels"], calibration.curve, var)
        names = "your own vectors + upgrade", "surefind's confidence"
        plain[encoder] = rows | dict.fromkeys(names, rows["confidence"])
        q = calibration.quality
        compared += [(encoder, "nearest distance", [q.nearest_right, q.baseline_auroc, None, None])]
        compared += [(encoder, "d₁/d₂₀", [q.nearest_right, q.ratio_auroc, None, None])]
        compared += [(encoder, "confidence", [q.right, q.auroc, q.ece, q.floor])]
    for row in json.loads(table.read_text())["table"]:
        values = [row[name] for name in ("recall", "auroc", "ece", "floor")]
        compared += [(row["encoder"], row["told_by"], values)]
    print(f"{'R@1, AUROC, ECE, floor:':46s} {'plain':30s} surefind")
    worst = 0.0
    for encoder, name, theirs in compared:
        pairs = [(a, b) for a, b in zip(plain[encoder][name], theirs, strict=True) if b is not None]
        shown = (" ".join(f"{value:.3f}" for value in side) for side in zip(*pairs, strict=True))
        print(f"{encoder + ', ' + name:46s} " + " ".join(f"{side:30s}" for side in shown))
        worst = max(worst, *(abs(a - b) for a, b in pairs))
    sys.exit(f"they differ by up to {worst:.4f}" if worst > 0.001 else 0)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
