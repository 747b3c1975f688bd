"""Catalog: images under a folder with their labels, positions and roles."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefind.errors import InvalidArgument

Value = str | int | float | bool


@dataclass(frozen=True)
class Catalog:
    """Images under a folder, one per row; a column that is not known is empty."""

    root: Path
    paths: tuple[str, ...]  # relative to the root, with forward slashes
    ids: tuple[str, ...] = ()  # the paths, unless given
    labels: tuple[str, ...] = ()
    positions: tuple[tuple[float, ...], ...] = ()  # metres: east and north, or on the Earth (3)
    queries: tuple[bool, ...] = ()  # query (True) or gallery (False); empty: every image is both
    difficulty: tuple[float, ...] = ()  # how corrupted, where a data set knows
    extra: tuple[dict[str, Value], ...] = ()  # further metadata, such as a price

    def __post_init__(self) -> None:
        if not self.ids:
            object.__setattr__(self, "ids", self.paths)
        for column in self._columns():
            values = getattr(self, column)
            if values and len(values) != len(self.paths):
                expected = f"{len(self.paths)} values, one per path"
                raise InvalidArgument(column, expected=expected, got=str(len(values)))
        if len(set(self.ids)) < len(self.ids):
            twice, _ = Counter(self.ids).most_common(1)[0]
            raise InvalidArgument("ids", expected="one id per image", got=f"{twice!r} more than once")
        for path in self.paths:
            if not path or path[0] == "/" or ".." in path.split("/") or "\0" in path:
                expected = f"paths relative to {self.root}, and inside it"
                raise InvalidArgument("paths", expected=expected, got=repr(path))

    def __len__(self) -> int:
        return len(self.paths)

    def file(self, row: int) -> Path:
        return self.root / self.paths[row]

    @property
    def files(self) -> list[Path]:
        return [self.root / path for path in self.paths]

    @cached_property
    def metadata(self) -> tuple[dict[str, Value], ...]:
        """Metadata for an index: further columns; path, and label and position if known."""
        root = self.root.absolute()
        extra = self.extra or ({},) * len(self)
        rows = [{**more, "path": str(root / path)} for more, path in zip(extra, self.paths, strict=True)]
        for row, label in enumerate(self.labels):
            rows[row]["label"] = label
        for row, place in enumerate(self.positions):
            names = ("east", "north") if len(place) == 2 else ("earth_x", "earth_y", "earth_z")
            rows[row] |= zip(names, place, strict=True)
        return tuple(rows)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Labels that occur, sorted."""
        return tuple(sorted(set(self.labels)))

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """Index into `classes` of each image's label, (N,)."""
        number = {name: code for code, name in enumerate(self.classes)}
        return np.array([number[label] for label in self.labels], dtype=np.int64)

    def select(self, rows: Sequence[int] | NDArray[np.int64]) -> Self:
        """Return the given rows, in that order."""
        rows = [int(row) for row in rows]
        taken: dict[str, Any] = {
            column: tuple(values[row] for row in rows) if (values := getattr(self, column)) else ()
            for column in self._columns()
        }
        return replace(self, **taken)

    def of_classes(self, names: Iterable[str]) -> Self:
        """Return the images with one of these labels."""
        wanted = set(names)
        return self.select([row for row, label in enumerate(self.labels) if label in wanted])

    @classmethod
    def _columns(cls) -> list[str]:
        return [field.name for field in fields(cls) if field.name != "root"]
