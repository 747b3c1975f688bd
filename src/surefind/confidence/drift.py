"""Drift: differences between new queries and the calibration queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefind.confidence.evidence import Neighbourhood, evidence
from surefind.confidence.guarantee import design_effect
from surefind.confidence.label_model import KNOWN_COLUMNS, LabelNeighbourhood, label_columns

Values = NDArray[np.float64]

QUANTILES = 201  # stored per column
FEWEST = 30  # queries needed for a comparison
FEW_CLASSES = 20
LARGE_CLASS = 0.3  # share of the queries
CLUSTERED = 2.0  # design effect


@dataclass(frozen=True)
class Drift:
    """Evidence column in which queries differ from the calibration queries."""

    name: str  # the column
    statistic: float  # Kolmogorov-Smirnov
    p_value: float  # after Bonferroni correction over all columns
    message: str  # direction and medians, for people


def quantiles_of(columns: Mapping[str, Values]) -> dict[str, tuple[float, ...]]:
    """Values of each column, or their quantiles if there are many."""
    kept = {}
    for name, values in columns.items():
        places = np.linspace(0, 1, min(len(values), QUANTILES))
        kept[name] = tuple(np.quantile(values, places).tolist())
    return kept


def compare(
    reference: Mapping[str, Sequence[float]], now: Mapping[str, Values], *, level: float = 0.05
) -> tuple[Drift, ...]:
    """Return the columns that differ from the calibration, the most different first.

    Two-sample Kolmogorov-Smirnov test of each column against its quantiles, which limits the
    reference to QUANTILES values, so that tiny differences are not significant. `level` bounds the
    probability of any false alarm for independent queries.
    """
    from scipy.stats import ks_2samp  # type: ignore[import-untyped]  # takes long to load

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
        message = f"{name.replace('_', ' ')}: values {how} when calibrated, median {new:.3g} now and {old:.3g} then"
        drifts.append(Drift(name, float(result.statistic), p_value, message))
    return tuple(sorted(drifts, key=lambda drift: -drift.statistic))


def check_calibration_data(
    right: NDArray[np.bool_], groups: NDArray[np.generic], *, has_match: NDArray[np.bool_]
) -> tuple[str, ...]:
    """Return remarks on weaknesses of the calibration queries."""
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
            f"class {names[sizes.argmax()]} holds {largest:.0%} of the queries: the guarantee is mostly about it",
        ),
        (lonely > 0, f"{lonely} of {len(groups)} queries have no match in the gallery: their top hit counts as wrong"),
        (
            deff > CLUSTERED,
            f"errors cluster by class (design effect {deff:.1f}), so the guarantee counts classes rather than queries",
        ),
    )
    return tuple(remark for holds, remark in remarks if holds)


def first_hit_columns(neighbourhood: Neighbourhood, names: tuple[str, ...], confidence: Values) -> dict[str, Values]:
    """Evidence of nearest images, and confidence: the reference for drift."""
    first = evidence(neighbourhood, names)[:, 0]
    return dict(zip(names, first.T, strict=True)) | {"confidence": confidence}


def label_reference(near: LabelNeighbourhood, confidence: Values) -> dict[str, Values]:
    """Evidence of queries, and confidence: the reference for drift."""
    return dict(zip(KNOWN_COLUMNS, label_columns(near).known.T, strict=True)) | {"confidence": confidence}
