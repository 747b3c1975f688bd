"""Vectors in a Parquet file: a column of lists, or one column of numbers per dimension."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.datasets.parquet import pyarrow_package
from surefind.errors import InvalidFile
from surefind.upgrade.naming import IDS, LABELS, Wanted, choose, choose_vectors, listed

Listed = list[Any] | None


class Columns:
    """A table in memory; pyarrow has no types, so nothing of it leaves this file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._compute = pyarrow_package("pyarrow.compute", path)
        self._types = pyarrow_package("pyarrow", path).types
        try:
            # Without partitioning: a folder called label=cat makes no column.
            self._table = pyarrow_package("pyarrow.parquet", path).read_table(
                path, partitioning=None
            )
        except (OSError, ValueError) as error:  # pyarrow's own errors are children of these
            missing = isinstance(error, FileNotFoundError)
            raise InvalidFile(
                f"{path} is not there" if missing else f"{path} cannot be read as Parquet: {error}",
                fix="check the path" if missing else "write the file again",
            ) from error
        self._kinds = {field.name: field.type for field in self._table.schema}

    def read(self, wanted: Wanted) -> tuple[NDArray[np.generic], Listed, Listed]:
        """Vectors, labels and ids."""
        described = {name: str(kind) for name, kind in self._kinds.items()}
        labels = choose(self.path, "labels", wanted.labels, LABELS, described)
        ids = choose(self.path, "ids", wanted.ids, IDS, described)
        lists = [name for name, kind in self._kinds.items() if self._is_list(kind)]
        if wanted.vectors is not None or lists:
            values = self._from_lists(
                choose_vectors(self.path, wanted.vectors, described, fitting=lists)
            )
        else:
            values = self._from_numbers({labels, ids}, described)
        return values, self._listed(labels), self._listed(ids)

    def _listed(self, name: str | None) -> Listed:
        return None if name is None else self._table[name].to_pylist()

    def _is_list(self, kind: Any) -> bool:
        types = self._types
        return any(f(kind) for f in (types.is_list, types.is_large_list, types.is_fixed_size_list))

    def _from_lists(self, name: str) -> NDArray[np.generic]:
        column, kind = self._table[name], self._kinds[name]
        if not self._is_list(kind) or not self._is_number(kind.value_type):
            raise InvalidFile(
                f"{self.path}, column {name}: holds {kind}, not lists of numbers",
                fix="name a column of lists of numbers with vectors=",
            )
        lengths = self._compute.list_value_length(column).to_pylist()
        values = self._compute.list_flatten(column)
        if len(set(lengths)) != 1 or None in lengths or values.null_count:
            raise InvalidFile(
                f"{self.path}, column {name}: holds lists of different lengths or missing values",
                fix="give every row a list of as many numbers",
            )
        return np.asarray(values.to_numpy()).reshape(len(lengths), -1)

    def _from_numbers(
        self, taken: set[str | None], described: dict[str, str]
    ) -> NDArray[np.generic]:
        names = [n for n, k in self._kinds.items() if n not in taken and self._is_number(k)]
        if not names:
            raise InvalidFile(
                f"{self.path}: no column of vectors among {listed(described)}",
                fix="name one with vectors=, or give each dimension a column of numbers",
            )
        for name in names:
            if self._table[name].null_count:
                raise InvalidFile(
                    f"{self.path}, column {name}: {self._table[name].null_count} missing values",
                    fix="leave those rows out",
                )
        return np.column_stack([self._table[name].to_numpy() for name in names])

    def _is_number(self, kind: Any) -> bool:
        return bool(self._types.is_floating(kind) or self._types.is_integer(kind))
