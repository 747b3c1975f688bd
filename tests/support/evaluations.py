"""A small evaluation made up for tests of reports: pictures on disk, a table, a result."""

from pathlib import Path

import numpy as np
from PIL import Image

from surefind.metrics.intervals import Estimate
from surefind.reports.result import SHOWN, About, EvalResult, Exclusion, Ladder, QueryTable, Ranking, Rung

LEARNED = ("query_var", "pair_var", "distance_std")
TRAINING_FREE = ("nearest_distance", "ratio_1_2", "ratio_1_10", "ratio_1_20", "nearest_cosine")

RETRIEVAL = {
    "R@1": 0.6, "R@5": 0.8, "R@10": 0.9, "mAP@1": 0.6, "mAP@5": 0.5, "mAP@10": 0.4,
    "P@1": 0.6, "P@5": 0.45, "P@10": 0.35, "MAP@R": 0.3,
}  # fmt: skip
METRICS = {
    "auroc": 0.7, "aupr": 0.6, "aurc": 0.2, "e_aurc": 0.1, "risk_80": 0.3, "risk_90": 0.3,
    "risk_95": 0.3, "spearman": 0.4, "ece": 0.05, "brier": 0.2, "nll": 0.6,
    "ood_auroc": 0.9, "ood_aupr": 0.8, "fpr95": 0.3,
}  # fmt: skip


def estimate(value: float, half: float = 0.02) -> Estimate:
    return Estimate(value, value - half, value + half)


def make_evaluation(
    folder: Path, *, queries: int = 120, foreign: int = 30, learned: bool = True
) -> tuple[EvalResult, QueryTable]:
    """Like what `evaluate` returns; wrong queries are vaguer, foreign ones vaguest."""
    random = np.random.default_rng(0)
    signals = (*LEARNED, *TRAINING_FREE) if learned else TRAINING_FREE
    rankings = ("means", "expected") if learned else ("means",)
    names = [f"class {row % 6}/{row:03d}.png" for row in range(queries)]
    strangers = [f"{row:03d}.png" for row in range(foreign)]
    _draw(folder / "data", names, random)
    _draw(folder / "foreign", strangers, random)
    total = queries + foreign
    is_foreign = np.arange(total) >= queries
    columns: dict[str, np.ndarray] = {
        "id": np.array([*names, *(f"foreign/{name}" for name in strangers)]),
        "path": np.array([*names, *strangers]),
        "label": np.array([*(name.split("/")[0] for name in names), *("" for _ in strangers)]),
        "foreign": is_foreign,
        "n_matches": np.where(is_foreign, 0, queries // 6 - 1),
    }
    for ranking in rankings:
        doubt = random.random(total) + is_foreign
        hits = (random.random((total, SHOWN)) > 0.6 * doubt[:, None]) & ~is_foreign[:, None]
        for rank in range(SHOWN):
            columns[f"{ranking}.hit_{rank + 1}"] = np.array(random.choice(names, total))
            columns[f"{ranking}.match_{rank + 1}"] = hits[:, rank]
            columns[f"{ranking}.distance_{rank + 1}"] = 0.1 * (rank + 1 + doubt)
        for name in signals:
            columns[f"{ranking}.signal.{name}"] = doubt + 0.3 * random.random(total)
            probability = np.clip(1 - 0.6 * doubt, 0.01, 0.99)
            columns[f"{ranking}.probability.{name}"] = np.where(is_foreign, np.nan, probability)
    found = {
        ranking: Ranking(
            retrieval={name: estimate(value) for name, value in RETRIEVAL.items()},
            ece={
                definition: {f"ECE@{k}": estimate(0.1 + 0.01 * k) for k in (1, 5, 10)}
                for definition in ("equal_width", "equal_mass")
            }
            if learned
            else {},
            signals={
                name: {
                    metric: estimate(value)
                    for metric, value in METRICS.items()
                    if foreign or metric not in ("ood_auroc", "ood_aupr", "fpr95")
                }
                for name in signals
            },
        )
        for ranking in rankings
    }
    about = About(
        data="folder:data",
        data_name="data",
        split="test",
        root=str(folder / "data"),
        model="model",
        fingerprint="0123456789abcdef",
        family="gaussian" if learned else "point",
        dim=64,
        protocol="every image asks, all others are searched; same label is a match",
        queries=queries,
        gallery=queries,
        classes=6,
        ks=(1, 5, 10),
        resamples=1000,
        resampled_classes=6,
        foreign="folder:foreign" if foreign else "",
        foreign_root=str(folder / "foreign") if foreign else "",
        foreign_queries=foreign,
        bars_auroc=0.5 if foreign else None,
        command="surefind evaluate model folder:data -o report",
        versions={"surefind": "0.1", "torch": "2.13.0"},
        date="2026-01-01T00:00:00+00:00",
        seconds=12.3,
    )
    result = EvalResult(
        about=about,
        rankings=found,
        exclusions=(
            Exclusion("no match in the gallery", 3, ("class 9/a.png", "class 8/<b>.png")),
            Exclusion("cannot be read: truncated", 1, ("class 1/broken.jpg",)),
        ),
        ladder=_ladder(signals),
    )
    return result, QueryTable(columns)


def _draw(folder: Path, names: list[str], random: np.random.Generator) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 255, (4, 6, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((120, 80), Image.Resampling.BICUBIC).save(path)


def _ladder(signals: tuple[str, ...]) -> Ladder:
    kinds = ("blur", "occlusion", "crop", "noise")
    return Ladder(
        queries=20,
        rungs=tuple(
            Rung(kind, level, 0.6 - 0.1 * level, dict.fromkeys(signals, 1 + 0.2 * level))
            for kind in kinds
            for level in range(6)
        ),
        spearman={kind: dict.fromkeys(signals, 0.8) for kind in kinds},
    )
