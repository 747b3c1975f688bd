"""A new collection, if there is none of that name."""

from surefind.engines.engine import LONGEST_ID, EngineError
from surefind.engines.milvus.driver import Collection
from surefind.engines.milvus.writing import LONGEST_DIGEST
from surefind.errors import InvalidArgument

WIDEST = 32_768  # numbers in a vector


def check_width(width: int) -> None:
    if width > WIDEST:
        raise InvalidArgument(
            "dim",
            expected=f"at most {WIDEST} numbers in a vector, Milvus's limit",
            got=str(width),
            fix="use a model with fewer dimensions, or another engine",
        )


def make(collection: Collection, description: str, width: int) -> None:
    """Milvus refuses a second one only if it is described differently, as all of ours are."""
    there = EngineError(
        f"there is a collection at {collection.place.shown} already",
        fix="open it to add to it, or name another collection in the URL",
    )
    if collection.exists():
        raise there
    try:
        collection.create(description, width, longest_id=LONGEST_ID, longest_digest=LONGEST_DIGEST)
    except EngineError as error:
        if collection.exists():  # someone was quicker
            raise there from error
        raise
