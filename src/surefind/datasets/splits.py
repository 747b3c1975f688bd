"""Splits to train, validate and test on: those of the source, else by class, else by area."""

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from surefind.errors import SurefindError
from surefind.images.catalog import Catalog

SPLITS = ("train", "val", "test", "foreign")
GAP_M = 100.0  # between two areas: four times the usual 25 m within which images match
SLACK = 0.1  # deviation from the wanted share, to lose fewer images to the gap


@dataclass(frozen=True)
class Splits:
    """Catalogs that share no image and no class; raise SurefindError if an image or a class is in two of them."""

    name: str  # of the data set
    train: Catalog  # may be empty
    val: Catalog  # whole classes (or an area) held out of the training split; may be empty
    test: Catalog
    foreign: Catalog | None = None  # images that belong to no class of the others

    def __post_init__(self) -> None:
        known = {s: catalog for s in SPLITS if (catalog := getattr(self, s)) is not None}
        for (one, first), (other, second) in combinations(known.items(), 2):
            if shared := set(first.classes) & set(second.classes):
                raise SurefindError(f"{self.name}: class {min(shared)!r} is in both {one} and {other}")
            if first.root == second.root and (twice := set(first.paths) & set(second.paths)):
                raise SurefindError(f"{self.name}: image {min(twice)!r} is in both {one} and {other}")


class Listing(NamedTuple):
    """All images of a source, with their splits if the source has them."""

    name: str
    catalog: Catalog
    splits: tuple[str, ...] = ()
    problem: str = ""  # why it cannot be split


def divide(listing: Listing, *, val_share: float, seed: int) -> Splits:
    """Split a listing by its own splits, else by classes in halves, else by area.

    A missing validation split is held out of the training split; a missing test split is replaced
    by the validation split. Areas are more than 100 m apart; images in the gap are left out.
    """
    name, catalog, splits, problem = listing
    if problem or not (catalog.labels or catalog.positions):
        raise SurefindError(
            f"{name}: {problem or 'it has neither classes nor positions'}",
            fix="use one folder per class, or a CSV with the columns path and label",
        )
    if splits:
        return _given_splits(listing, val_share, seed)
    if classes := catalog.classes:
        if len(classes) < 4:
            raise SurefindError(
                f"{name}: {len(classes)} {'class' if len(classes) == 1 else 'classes'}; training "
                "needs at least two classes, and a test two others"
            )
        half = (len(classes) + 1) // 2
        rest, test = catalog.of_classes(classes[:half]), catalog.of_classes(classes[half:])
        _check_classes(f"{name}, training half", rest)
        _check_classes(f"{name}, test half", test)
    else:
        halves = _cut_area(catalog, share=0.5)
        if halves is None:
            raise SurefindError(
                f"{name}: too few images, or too close together, to be split into two areas "
                f"{GAP_M:.0f} m apart, each with queries and a database",
                fix="add a column `split` that says train, val or test for each image",
            )
        rest, test = halves
    train, val = _hold_out(rest, val_share, seed)
    return Splits(name, train=train, val=val, test=test)


def _given_splits(listing: Listing, val_share: float, seed: int) -> Splits:
    name, catalog, splits, _ = listing
    rows = {split: [row for row, its in enumerate(splits) if its == split] for split in SPLITS}
    train, val, test, foreign = (catalog.select(rows[split]) for split in SPLITS)
    if not len(test):
        test, val = val, test
    if not len(test):
        raise SurefindError(f"{name}: no image in the split 'test' of {catalog.root}")
    for split, some in (("train", train), ("test", test)):
        if some.labels:
            _check_classes(f"{name}, {split}", some)
    if len(train) and not len(val):
        train, val = _hold_out(train, val_share, seed)
    return Splits(name, train=train, val=val, test=test, foreign=foreign if len(foreign) else None)


def _check_classes(name: str, catalog: Catalog) -> None:
    """Raise SurefindError unless there are two classes, and two images of one of them."""
    counts = Counter(catalog.labels)
    if len(counts) < 2:
        raise SurefindError(f"{name}: {len(counts)} class, but at least two are needed")
    if max(counts.values()) < 2:
        raise SurefindError(
            f"{name}: no class has two images, so no image has a match",
            fix="check that labels name classes, not images",
        )


def _hold_out(catalog: Catalog, share: float, seed: int) -> tuple[Catalog, Catalog]:
    """Split into training and validation: a random share of classes, or of the area.

    At least two classes of two images or more are held out, or none if fewer than two such
    classes would remain.
    """
    nothing = catalog, catalog.select([])
    if share == 0:
        return nothing
    if not catalog.labels:
        return _cut_area(catalog, share=1 - share) or nothing
    able = sorted(label for label, count in Counter(catalog.labels).items() if count > 1)
    wanted = max(2, round(share * len(catalog.classes)))
    if len(able) < wanted + 2:
        return nothing
    draw = np.random.default_rng(seed)
    held = {able[place] for place in draw.choice(len(able), size=wanted, replace=False)}
    return catalog.of_classes(set(catalog.classes) - held), catalog.of_classes(held)


def _cut_area(catalog: Catalog, *, share: float) -> tuple[Catalog, Catalog] | None:
    """Cut by a gap across the longer axis, with about `share` of the images before it.

    Of all gaps with queries and database on both sides, the one that loses fewest images.
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
