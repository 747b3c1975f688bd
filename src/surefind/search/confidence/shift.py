"""Are the queries still like those the promise was made with? In plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp  # type: ignore[import-untyped]

from surefind.errors import InvalidArgument
from surefind.metrics.checks import check_number
from surefind.search.confidence.guarantee import design_effect

Values = NDArray[np.float64]

QUANTILES = 201  # kept of each column
FEWEST = 30  # queries to compare
FEW_CLASSES = 20
LARGE_CLASS = 0.3  # share of the queries
GALLERY_CHANGE = 0.25
CLUSTERED = 2.0  # design effect


@dataclass(frozen=True)
class Shift:
    """One column in which queries differ from the calibration queries."""

    name: str
    statistic: float  # Kolmogorov-Smirnov: the largest gap between the two distributions
    p_value: float  # after Bonferroni, over all columns
    message: str


def quantiles_of(columns: Mapping[str, Values]) -> dict[str, tuple[float, ...]]:
    """What to keep of the calibration queries: the values themselves, or quantiles if many."""
    kept = {}
    for name, values in columns.items():
        known = _finite(name, values)
        places = np.linspace(0, 1, min(len(known), QUANTILES))
        kept[name] = tuple(np.quantile(known, places).tolist())
    return kept


def compare(
    reference: Mapping[str, Sequence[float]], now: Mapping[str, Values], *, level: float = 0.05
) -> tuple[Shift, ...]:
    """Columns in which a batch of queries is unlike calibration, the most unlike first.

    Two-sample Kolmogorov-Smirnov of each column against what `quantiles_of` kept; with many
    calibration queries the quantiles stand for only as many, so that small differences which
    large numbers would make significant are not reported. A chance of `level` of any false alarm
    among independent queries; queries of few classes differ more.
    """
    check_number("level", level, "a share between 0 and 1", lambda x: 0 < x < 1)
    if set(reference) != set(now):
        raise InvalidArgument(
            "now",
            expected="the columns " + ", ".join(sorted(reference)),
            got=", ".join(sorted(now)) or "none",
            fix="describe the queries as they were when calibrated, or calibrate again",
        )
    shifts = [_shift(name, reference[name], now[name], len(reference)) for name in reference]
    return tuple(sorted((s for s in shifts if s.p_value <= level), key=lambda s: -s.statistic))


def _shift(name: str, reference: Sequence[float], now: Values, columns: int) -> Shift:
    then, here = np.asarray(reference, float), _finite(name, now)
    if len(here) < FEWEST:
        raise InvalidArgument(
            "now",
            expected=f"at least {FEWEST} queries",
            got=f"{len(here)} in {name!r}",
            fix="gather more queries before comparing: a few differ by chance",
        )
    result = ks_2samp(then, here, method="asymp")
    medians = float(np.median(here)), float(np.median(then))
    larger = bool(result.statistic_sign > 0)  # more of `then` than of `here` lies below
    if medians[0] == medians[1] or (medians[0] > medians[1]) != larger:
        how = "are spread differently from"
    else:
        how = "are larger than" if larger else "are smaller than"
    message = (
        f"{name.replace('_', ' ')}: values {how} when calibrated, "
        f"median {medians[0]:.3g} now and {medians[1]:.3g} then"
    )
    p_value = min(1.0, float(result.pvalue) * columns)
    return Shift(name, float(result.statistic), p_value, message)


def check_calibration_data(
    right: NDArray[np.bool_],
    groups: NDArray[np.generic],
    *,
    has_match: NDArray[np.bool_],
    gallery_then: int,
    gallery_now: int,
) -> tuple[str, ...]:
    """What to know about the queries a promise was made with, and the gallery since."""
    groups, has_match = np.asarray(groups), np.asarray(has_match)
    names, sizes = np.unique(groups, return_counts=True)
    everything = np.array([len(groups)])
    deff = float(design_effect(~np.asarray(right, bool), groups, selected=everything)[0])
    largest, lonely = sizes.max() / len(groups), int((~has_match).sum())
    change = gallery_now / gallery_then - 1
    remarks = (
        (
            len(names) < FEW_CLASSES,
            f"only {len(names)} classes: the promise rests on how alike they are to others; "
            f"label queries of at least {FEW_CLASSES}",
        ),
        (
            largest > LARGE_CLASS and len(names) > 1,
            f"class {names[sizes.argmax()]} holds {largest:.0%} of the queries: "
            "the promise is mostly about it",
        ),
        (
            lonely > 0,
            f"{lonely} of {len(groups)} queries have no match in the gallery: "
            "their top hit counts as wrong",
        ),
        (
            abs(change) > GALLERY_CHANGE,
            f"the gallery has {gallery_now} images and had {gallery_then} when calibrated "
            f"({change:+.0%}): calibrate again",
        ),
        (
            deff > CLUSTERED,
            f"errors come in classes (design effect {deff:.1f}): "
            "the promise counts classes, not queries",
        ),
    )
    return tuple(remark for holds, remark in remarks if holds)


def _finite(name: str, values: object) -> Values:
    known = np.asarray(values, float)
    if known.ndim != 1 or not known.size or not np.isfinite(known).all():
        raise InvalidArgument(
            name,
            expected="one finite number per query",
            got=f"shape {known.shape}, {int((~np.isfinite(known)).sum())} not finite",
            fix="leave out queries whose evidence is not known",
        )
    return known
