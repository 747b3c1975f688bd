"""Catalogs to train, validate and test on: as the source says, else by classes, else by area."""

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from surefind.errors import SurefindError
from surefind.images.catalog import Catalog

SPLITS = ("train", "val", "test", "foreign")
GAP_M = 100.0  # between two areas: four times the usual 25 m within which images match
SLACK = 0.1  # how far from the wanted share a cut may be, to lose fewer images to the gap


@dataclass(frozen=True)
class Splits:
    """Parts of a data set, which share no image and no class."""

    name: str
    train: Catalog  # may be empty: there is data to test on only
    val: Catalog  # whole classes (or an area) held out of the training split; may be empty
    test: Catalog
    foreign: Catalog | None = None  # images that belong to no class of the others

    def __post_init__(self) -> None:
        parts = {
            split: catalog for split in SPLITS if (catalog := getattr(self, split)) is not None
        }
        for (one, first), (other, second) in combinations(parts.items(), 2):
            if shared := set(first.classes) & set(second.classes):
                raise SurefindError(
                    f"{self.name}: class {min(shared)!r} is in both {one} and {other}"
                )
            if first.root == second.root and (twice := set(first.paths) & set(second.paths)):
                raise SurefindError(
                    f"{self.name}: image {min(twice)!r} is in both {one} and {other}"
                )


class HoldOut(NamedTuple):
    """How much of the training split becomes the validation split, and by which draw."""

    share: float = 0.1
    seed: int = 0


class Listing(NamedTuple):
    """All images of a source; where the source says so, the split that each belongs to."""

    name: str
    catalog: Catalog
    parts: tuple[str, ...] = ()
    problem: str = ""  # why it cannot be split

    @property
    def has_splits(self) -> bool:
        """Whether it says what to train and what to test on."""
        return "train" in self.parts and not {"val", "test"}.isdisjoint(self.parts)


def divide(listing: Listing, hold_out: HoldOut) -> Splits:
    """Split a listing: as it says itself, else its classes in halves, else its area.

    A missing validation split is held out of the training split. Where there is no test split, the
    validation split takes its place. Areas are more than 100 m apart, and images in the gap are
    left out.
    """
    name, catalog, parts, problem = listing
    if problem or not (catalog.labels or catalog.positions):
        raise SurefindError(
            f"{name}: {problem or 'nothing says which images match each other'}",
            fix="put the images of each class into a folder of their own, or write a CSV with the "
            "columns path and label (or lat and lon)",
        )
    if parts:
        return _as_given(listing, hold_out)
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
    train, val = _hold_out(rest, hold_out)
    return Splits(name, train=train, val=val, test=test)


def _as_given(listing: Listing, hold_out: HoldOut) -> Splits:
    name, catalog, parts, _ = listing
    rows = {split: [row for row, its in enumerate(parts) if its == split] for split in SPLITS}
    train, val, test, foreign = (catalog.select(rows[split]) for split in SPLITS)
    if not len(test):
        test, val = val, test
    if not len(test):
        raise SurefindError(
            f"{name}: no image in the split 'test' of {catalog.root}",
            fix="add some; to search or to check the images no splits are needed (read_catalog)",
        )
    for split, some in (("train", train), ("test", test)):
        if some.labels:
            _check_classes(f"{name}, {split}", some)
    if len(train) and not len(val):
        train, val = _hold_out(train, hold_out)
    return Splits(name, train=train, val=val, test=test, foreign=foreign if len(foreign) else None)


def _check_classes(name: str, catalog: Catalog) -> None:
    """Refuse images without a triplet: two classes, and two images of one of them."""
    counts = Counter(catalog.labels)
    if len(counts) < 2:
        raise SurefindError(f"{name}: {len(counts)} class, but at least two are needed")
    if max(counts.values()) < 2:
        raise SurefindError(
            f"{name}: no class has two images, so no image has a match",
            fix="add a second image to some classes, or check that labels name classes, not images",
        )


def _hold_out(catalog: Catalog, hold_out: HoldOut) -> tuple[Catalog, Catalog]:
    """Images to train on and to validate on: a random share of classes, or a strip of the area.

    At least two classes are held out, of two images or more: fewer have nothing to find or to
    confuse. Where that would leave fewer than two such classes to train on, none is held out.
    """
    nothing = catalog, catalog.select([])
    if hold_out.share == 0:
        return nothing
    if not catalog.labels:
        return _cut_area(catalog, share=1 - hold_out.share) or nothing
    able = sorted(label for label, count in Counter(catalog.labels).items() if count > 1)
    wanted = max(2, round(hold_out.share * len(catalog.classes)))
    if len(able) < wanted + 2:
        return nothing
    draw = np.random.default_rng(hold_out.seed)
    held = {able[place] for place in draw.choice(len(able), size=wanted, replace=False)}
    return catalog.of_classes(set(catalog.classes) - held), catalog.of_classes(held)


def _cut_area(catalog: Catalog, *, share: float) -> tuple[Catalog, Catalog] | None:
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
