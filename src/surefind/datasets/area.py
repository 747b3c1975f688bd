"""Splits of places by area: no place that is tested is near a place that was trained on."""

import numpy as np

from surefind.datasets.splits import HoldOut, Splits
from surefind.errors import SurefindError
from surefind.images.catalog import Catalog

GAP_M = 100.0  # between two parts: four times the usual 25 m within which images match
SLACK = 0.1  # how far from the wanted share a cut may be, to lose fewer images to the gap


def split_by_area(name: str, catalog: Catalog, *, hold_out: HoldOut) -> Splits:
    """One half of the longer axis to train on, the other to test on, more than 100 m apart.

    The images in the gap are left out.
    """
    halves = cut_area(catalog, share=0.5)
    if halves is None:
        raise SurefindError(
            f"{name}: too few images, or too close together, to be split into two areas "
            f"{GAP_M:.0f} m apart, each with queries and a database",
            fix="add a column `split` that says train, val or test for each image",
        )
    train, val = hold_out_area(halves[0], hold_out)
    return Splits(name, train=train, val=val, test=halves[1])


def hold_out_area(catalog: Catalog, hold_out: HoldOut) -> tuple[Catalog, Catalog]:
    """Images to train on and, from a strip at one end, to validate on; none if that cannot be."""
    parts = cut_area(catalog, share=1 - hold_out.share) if hold_out.share else None
    return parts or (catalog, catalog.select([]))


def cut_area(catalog: Catalog, *, share: float) -> tuple[Catalog, Catalog] | None:
    """The images before and after a gap across the longer axis, about `share` of them before.

    Of all gaps that leave queries and a database on both sides, the one that loses fewest images.
    """
    if len(catalog) < 2:
        return None
    places = np.array(catalog.positions)
    along = places[:, np.ptp(places, axis=0).argmax()]
    order = np.argsort(along, kind="stable")
    before = np.arange(1, len(along))  # how many lie before the gap, for each possible cut
    after = np.searchsorted(along[order], along[order][before - 1] + GAP_M, side="right")
    kept_after = len(along) - after
    off = abs(before / (before + kept_after) - share)
    usable = (off <= min(SLACK, share / 2, (1 - share) / 2)) & (kept_after > 0)
    if catalog.queries:
        asked = np.concatenate([[0], np.cumsum(np.array(catalog.queries)[order])])
        usable &= (asked[before] > 0) & (asked[before] < before)
        asked_after = asked[-1] - asked[after]
        usable &= (asked_after > 0) & (asked_after < kept_after)
    if not usable.any():
        return None
    cuts = np.flatnonzero(usable)
    best = cuts[np.lexsort((off[cuts], (after - before)[cuts]))[0]]
    first, last = order[: before[best]], order[after[best] :]
    return catalog.select(np.sort(first)), catalog.select(np.sort(last))
