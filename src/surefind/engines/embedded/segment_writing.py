"""A segment written column by column, so that millions of rows need little memory."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.engines.embedded.columns import digest_hashes
from surefind.engines.embedded.container import Layout, Shape, layout
from surefind.engines.embedded.flat import preface
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.gathering import Gathered
from surefind.engines.embedded.manifest import Piece
from surefind.engines.embedded.writing import hashed_file, new_name

Blocks = Iterable[bytes | memoryview]


def planned(gathered: Gathered) -> Layout:
    """How the segment of these rows will lie in its file."""
    return layout(
        Shape(
            rows=len(gathered),
            width=gathered.width,
            id_bytes=int(gathered.offsets("id")[-1]),
            metadata_bytes=int(gathered.offsets("metadata")[-1]),
            digests=int(np.count_nonzero(gathered.column("has_digest"))),
            preface=len(preface(len(gathered), gathered.width)),
        )
    )


def write_segment(folder: Folder, gathered: Gathered) -> Piece:
    """The new segment, on the disk but in no version yet."""
    plan, name = planned(gathered), new_name("segment")
    content = dict(_content(gathered))
    with hashed_file(folder.file(name)) as file:
        file.write(plan.header)
        for column, place in plan.columns.items():
            file.pad_to(place.offset)
            file.write_all(content[column])
        assert file.size == plan.size
    var = gathered.column("var")
    return Piece(
        segment=file.kept(name),
        rows=len(gathered),
        least_var=float(var.min()),
        most_var=float(var.max()),
    )


def _content(gathered: Gathered) -> Iterator[tuple[str, Blocks]]:
    for name in ("key", "var", "has_digest", "digest", "vectors"):
        yield name, gathered.blocks(name)
    for name in ("id", "metadata"):
        yield f"{name}_offset", _whole(gathered.offsets(name))
        yield name, gathered.texts(name)
    yield from _sorted("id", gathered.column("id_hash"), None)
    known = np.flatnonzero(gathered.column("has_digest"))
    yield from _sorted("digest", digest_hashes(gathered.column("digest"))[known], known)
    yield "preface", [preface(len(gathered), gathered.width)]


def _sorted(
    name: str, hashes: NDArray[np.uint64], rows: NDArray[np.int64] | None
) -> Iterator[tuple[str, Blocks]]:
    """Hashes in ascending order with the rows that have them, for binary search."""
    order = np.argsort(hashes, kind="stable")
    yield f"{name}_hash", _whole(hashes[order])
    yield f"{name}_row", _whole((order if rows is None else rows[order]).astype("<u4"))


def _whole(column: NDArray[Any]) -> Blocks:
    return [np.ascontiguousarray(column).data]
