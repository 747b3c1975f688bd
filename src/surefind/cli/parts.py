"""A part of a data set, where a command takes one."""

from surefind.datasets import open_dataset, read_catalog
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog

PARTS = ("all", "train", "val", "test")


def part_of(data: str, part: str) -> Catalog:
    """All images of the data, or those that it is trained, validated or tested with."""
    if part == "all":
        return read_catalog(data)
    catalog: Catalog = getattr(open_dataset(data), part)
    if not len(catalog):
        raise InvalidArgument(
            "--part",
            expected="images in it",
            got=f"none in {part} of {data}",
            fix="choose another part",
        )
    return catalog
