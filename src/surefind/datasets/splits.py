"""How every data set reaches the rest: catalogs to train, validate and test on."""

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from surefind.errors import InvalidArgument, SurefindError
from surefind.images.catalog import Catalog

PARTS = ("train", "val", "test", "foreign")


@dataclass(frozen=True)
class Splits:
    """The parts of a data set; no two of them share an image or a class."""

    name: str
    train: Catalog  # may be empty: there is data to test on only
    val: Catalog  # whole classes (or an area) held out of the training part; may be empty
    test: Catalog
    foreign: Catalog | None = None  # images that belong to no class of the others

    def __post_init__(self) -> None:
        parts = {part: catalog for part in PARTS if (catalog := getattr(self, part)) is not None}
        for (one, first), (other, second) in combinations(parts.items(), 2):
            if shared := set(first.classes) & set(second.classes):
                raise SurefindError(
                    f"{self.name}: class {min(shared)!r} is in both {one} and {other}",
                    fix="keep each class in one part: quality is measured on unseen classes",
                )
            if first.root == second.root and (twice := set(first.paths) & set(second.paths)):
                raise SurefindError(
                    f"{self.name}: image {min(twice)!r} is in both {one} and {other}",
                    fix="keep each image in one part",
                )


class HoldOut(NamedTuple):
    """How much of the training part becomes the validation part, and by which draw."""

    share: float = 0.1
    seed: int = 0


class Listing(NamedTuple):
    """All images of a source; where the source says so, the part that each belongs to."""

    catalog: Catalog
    parts: tuple[str, ...] = ()

    @property
    def has_splits(self) -> bool:
        """Whether it says what to train and what to test on."""
        return "train" in self.parts and not {"val", "test"}.isdisjoint(self.parts)


def check_hold_out(hold_out: HoldOut) -> None:
    if not 0 <= hold_out.share < 1:
        raise InvalidArgument(
            "val_share",
            expected="a share from 0 to below 1",
            got=repr(hold_out.share),
            fix="0.1 holds a tenth of the training classes out",
        )
    if hold_out.seed < 0:
        raise InvalidArgument(
            "seed", expected="0 or more", got=repr(hold_out.seed), fix="pass such a number"
        )
