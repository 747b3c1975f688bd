"""Are the queries still like those the guarantee was made with? In plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp  # type: ignore[import-untyped]

from surefind.confidence.guarantee import design_effect

Values = NDArray[np.float64]

QUANTILES = 201  # kept of each column
FEWEST = 30  # queries to compare
FEW_CLASSES = 20
LARGE_CLASS = 0.3  # share of the queries
CLUSTERED = 2.0  # design effect


@dataclass(frozen=True)
class Drift:
    """One column in which queries differ from the calibration queries."""

    name: str
    statistic: float  # Kolmogorov-Smirnov: the largest gap between the two distributions
    p_value: float  # after Bonferroni, over all columns
    message: str


def quantiles_of(columns: Mapping[str, Values]) -> dict[str, tuple[float, ...]]:
    """What to keep of the calibration queries: the values themselves, or quantiles if many."""
    kept = {}
    for name, values in columns.items():
        places = np.linspace(0, 1, min(len(values), QUANTILES))
        kept[name] = tuple(np.quantile(values, places).tolist())
    return kept


def compare(
    reference: Mapping[str, Sequence[float]], now: Mapping[str, Values], *, level: float = 0.05
) -> tuple[Drift, ...]:
    """Columns in which a batch of queries is unlike calibration, the most unlike first.

    Two-sample Kolmogorov-Smirnov of each column against what `quantiles_of` kept; with many
    calibration queries the quantiles stand for only as many, so that small differences which
    large numbers would make significant are not reported. A chance of `level` of any false alarm
    among independent queries; queries of few classes differ more.
    """
    drifts = []
    for name, then in reference.items():
        result = ks_2samp(then, now[name], method="asymp")
        p_value = min(1.0, float(result.pvalue) * len(reference))
        if p_value > level:
            continue
        new, old = float(np.median(now[name])), float(np.median(then))
        larger = bool(result.statistic_sign > 0)  # more of the reference than of `now` lies below
        how = "are larger than" if larger else "are smaller than"
        if new == old or (new > old) != larger:
            how = "are spread differently from"
        message = (
            f"{name.replace('_', ' ')}: values {how} when calibrated, "
            f"median {new:.3g} now and {old:.3g} then"
        )
        drifts.append(Drift(name, float(result.statistic), p_value, message))
    return tuple(sorted(drifts, key=lambda drift: -drift.statistic))


def check_calibration_data(
    right: NDArray[np.bool_],
    groups: NDArray[np.generic],
    *,
    has_match: NDArray[np.bool_],
) -> tuple[str, ...]:
    """What to know about the queries a guarantee was made with."""
    names, sizes = np.unique(groups, return_counts=True)
    everything = np.array([len(groups)])
    deff = float(design_effect(~right, groups, selected=everything)[0])
    largest, lonely = sizes.max() / len(groups), int((~has_match).sum())
    remarks = (
        (
            len(names) < FEW_CLASSES,
            f"only {len(names)} classes: the guarantee rests on how alike they are to others; "
            f"label queries of at least {FEW_CLASSES}",
        ),
        (
            largest > LARGE_CLASS and len(names) > 1,
            f"class {names[sizes.argmax()]} holds {largest:.0%} of the queries: "
            "the guarantee is mostly about it",
        ),
        (
            lonely > 0,
            f"{lonely} of {len(groups)} queries have no match in the gallery: "
            "their top hit counts as wrong",
        ),
        (
            deff > CLUSTERED,
            f"errors come in classes (design effect {deff:.1f}): "
            "the guarantee counts classes, not queries",
        ),
    )
    return tuple(remark for holds, remark in remarks if holds)
