"""Splits by whole classes: first half to train on, last half to test on."""

from collections import Counter
from collections.abc import Callable

import numpy as np

from surefind.datasets.splits import HoldOut, Splits
from surefind.errors import SurefindError
from surefind.images.catalog import Catalog


def split_in_halves(name: str, catalog: Catalog, *, hold_out: HoldOut) -> Splits:
    """The first half of the classes, sorted by name, to train on; the last half to test on."""
    classes = catalog.classes
    if len(classes) < 4:
        raise SurefindError(
            f"{name}: {_count(len(classes), 'class', 'classes')}; training needs at least two "
            "classes, and a test two others",
            fix="add images of other classes, one folder (or label) for each class",
        )
    first = set(classes[: (len(classes) + 1) // 2])
    return split_by_rule(name, catalog, is_training=first.__contains__, hold_out=hold_out)


def split_by_rule(
    name: str, catalog: Catalog, *, is_training: Callable[[str], bool], hold_out: HoldOut
) -> Splits:
    """Classes for which the rule holds to train on, the others to test on."""
    training = [label for label in catalog.classes if is_training(label)]
    testing = [label for label in catalog.classes if not is_training(label)]
    rest, test = catalog.of_classes(training), catalog.of_classes(testing)
    check_classes(f"{name}, training half", rest)
    check_classes(f"{name}, test half", test)
    train, val = hold_out_classes(rest, hold_out)
    return Splits(name, train=train, val=val, test=test)


def hold_out_classes(catalog: Catalog, hold_out: HoldOut) -> tuple[Catalog, Catalog]:
    """Images to train on, and those of a random share of classes to validate on.

    At least two classes are held out, of two images or more: fewer have nothing to find or to
    confuse. Where that would leave fewer than two such classes to train on, none is held out.
    """
    able = sorted(label for label, count in Counter(catalog.labels).items() if count > 1)
    wanted = max(2, round(hold_out.share * len(catalog.classes)))
    if hold_out.share == 0 or len(able) < wanted + 2:
        return catalog, catalog.select([])
    draw = np.random.default_rng(hold_out.seed)
    held = {able[place] for place in draw.choice(len(able), size=wanted, replace=False)}
    return catalog.of_classes(set(catalog.classes) - held), catalog.of_classes(held)


def check_classes(name: str, catalog: Catalog) -> None:
    """A triplet needs two classes, and two images of one of them."""
    counts = Counter(catalog.labels)
    if len(counts) < 2:
        raise SurefindError(
            f"{name}: {_count(len(counts), 'class', 'classes')}, but at least two are needed",
            fix="add images of other classes",
        )
    if max(counts.values()) < 2:
        raise SurefindError(
            f"{name}: no class has two images, so no image has a match",
            fix="add a second image to some classes, or check that labels name classes, not images",
        )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
