"""Which rows of a gallery match a query: by label, or by place."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree  # type: ignore[import-untyped]

from surefind.engines.engine import Engine
from surefind.engines.where import Metadata
from surefind.errors import InvalidArgument

RADIUS = 25.0  # metres; nearer places are the same

Flags = NDArray[np.bool_]


def facts_of(engine: Engine) -> list[Metadata]:
    """What is known about all rows."""
    return [facts for block in engine.scan() for facts in engine.rows(block.keys).metadata]


def is_labelled(facts: Metadata) -> bool:
    return "label" in facts or _has_place(facts)


def is_missing(label: object) -> bool:
    """Tables have nan, None or nothing where there is no label."""
    return label is None or label == "" or label != label


def matching(query: Metadata, rows: Sequence[Metadata]) -> Flags:
    """Which rows match, (n,)."""
    if "label" in query:
        return np.array([_label(row) == _label(query) for row in rows], dtype=bool)
    here = _place(query)
    return np.array([np.linalg.norm(_place(row) - here) <= RADIUS for row in rows], dtype=bool)


def contradict(query: Metadata, row: Metadata) -> bool:
    """Whether both have labels, and not the same."""
    return "label" in query and "label" in row and _label(query) != _label(row)


def has_match(
    queries: Sequence[Metadata], gallery: Sequence[Metadata], *, left_out: NDArray[np.int64]
) -> Flags:
    """Which queries have a match besides themselves and their copies, (Q,).

    `left_out` (Q,) is how many rows those are that would match.
    """
    if all("label" in facts for facts in queries):
        counts = Counter(map(_label, gallery))
        found = np.array([counts[_label(facts)] for facts in queries])
        return np.asarray(found > left_out)
    known = [_place(facts) for facts in gallery if _has_place(facts)]
    tree = cKDTree(np.array(known).reshape(-1, 3))
    near = tree.query_ball_point(
        np.array([_place(facts) for facts in queries]), RADIUS, return_length=True
    )
    return np.asarray(near > left_out)


def classes_of(queries: Sequence[Metadata]) -> NDArray[np.int64]:
    """A number for each class; places are each on their own."""
    if all("label" in facts for facts in queries):
        return np.unique([str(facts["label"]) for facts in queries], return_inverse=True)[1]
    return np.arange(len(queries))


def check_labelled(gallery: Sequence[Metadata]) -> None:
    known = sum(map(is_labelled, gallery))
    if not known:
        raise InvalidArgument(
            "index",
            expected="images with labels (or places), so that a hit can be right or wrong",
            got=f"{len(gallery)} images without",
            fix="index a folder with a sub-folder per class, or a table with a label column",
        )


def _label(facts: Metadata) -> str | None:
    """As a text: 3 in a table is the class "3" of a folder."""
    return str(facts["label"]) if "label" in facts else None


def _has_place(facts: Metadata) -> bool:
    return not np.isnan(_place(facts)).any()


def _place(facts: Metadata) -> NDArray[np.float64]:
    """Metres, (3,): on a plane, or on the Earth; nan where it is not known."""
    names = ("earth_x", "earth_y", "earth_z") if "earth_x" in facts else ("east", "north")
    found = [facts.get(name, np.nan) for name in names]
    return np.array([*found, 0.0][:3], dtype=np.float64)
