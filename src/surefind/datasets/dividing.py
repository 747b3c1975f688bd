"""From all images of a source to its splits: as the source says, else by classes, else by area."""

from surefind.datasets.area import hold_out_area, split_by_area
from surefind.datasets.classes import check_classes, hold_out_classes, split_in_halves
from surefind.datasets.splits import PARTS, HoldOut, Listing, Splits
from surefind.errors import SurefindError
from surefind.images.catalog import Catalog


def divide(name: str, listing: Listing, *, hold_out: HoldOut) -> Splits:
    catalog = listing.catalog
    if not (catalog.labels or catalog.positions):
        raise SurefindError(
            f"{name}: nothing says which images match each other",
            fix="put the images of each class into a folder of their own, or write a CSV with the "
            "columns path and label (or lat and lon)",
        )
    if listing.parts:
        return _as_given(name, listing, hold_out)
    if catalog.labels:
        return split_in_halves(name, catalog, hold_out=hold_out)
    return split_by_area(name, catalog, hold_out=hold_out)


def _as_given(name: str, listing: Listing, hold_out: HoldOut) -> Splits:
    """A missing validation part is held out of the training part; so it is where there is no
    test part, and the validation part takes its place.
    """
    parts = {part: _rows_of(listing, part) for part in PARTS}
    train, val, test = parts["train"], parts["val"], parts["test"]
    if not len(test):
        test, val = val, test
    for part, catalog in (("train", train), ("test", test)):
        if not len(catalog):
            raise SurefindError(
                f"{name}: no image in the part {part!r}",
                fix="name the parts train, val and test; train and test must have images",
            )
        if catalog.labels:
            check_classes(f"{name}, {part}", catalog)
    if not len(val) and train.labels:
        train, val = hold_out_classes(train, hold_out)
    elif not len(val):
        train, val = hold_out_area(train, hold_out)
    foreign = parts["foreign"] if len(parts["foreign"]) else None
    return Splits(name, train=train, val=val, test=test, foreign=foreign)


def _rows_of(listing: Listing, part: str) -> Catalog:
    return listing.catalog.select([row for row, own in enumerate(listing.parts) if own == part])
