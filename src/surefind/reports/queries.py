"""One row per query, for whoever wants to look closer: CSV or Parquet."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefind.datasets.parquet import read_parquet, to_parquet
from surefind.errors import InvalidFile
from surefind.files import write_whole

SHOWN = 10  # neighbours in the table


class QueryTable:
    """Columns of equal length; `foreign` rows are queries of the out-of-distribution data.

    id, path, label, foreign, n_matches; then for each ranking (`means`, `expected`)
    `means.hit_1` ... `means.hit_10` (paths of the nearest), `means.match_1` ... (whether they
    match), `means.distance_1` ..., `means.signal.NAME` (uncertainties) and
    `means.probability.NAME` (that the top hit is right, cross-fitted; nan if it was not scored).
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self.columns = dict(columns)
        assert len({len(column) for column in self.columns.values()}) == 1, "one value per query"

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __len__(self) -> int:
        return len(self.columns["id"])

    def select(self, rows: NDArray[Any]) -> Self:
        """The given rows, by number or by mask."""
        return type(self)({name: column[rows] for name, column in self.columns.items()})

    def own(self) -> Self:
        """The scored queries: not foreign, and with a match in the gallery."""
        return self.select(~self["foreign"] & (self["n_matches"] > 0))

    def hits(self, ranking: str) -> NDArray[np.bool_]:
        """Which of the nearest match, (Q, K), nearest first."""
        return np.stack([self[name] for name in self._of(f"{ranking}.match_")], axis=1)

    def signals(self, ranking: str) -> dict[str, NDArray[np.float64]]:
        """Every uncertainty by its name."""
        start = f"{ranking}.signal."
        return {name.removeprefix(start): self[name] for name in self._of(start)}

    def _of(self, start: str) -> list[str]:
        return [name for name in self.columns if name.startswith(start)]

    def write(self, path: Path) -> None:
        """By the ending: `.csv`, or `.parquet` (needs the extra `parquet`)."""
        if path.suffix == ".parquet":
            write_whole(path, to_parquet(self.columns))
            return
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(self.columns)
        writer.writerows(zip(*(c.tolist() for c in self.columns.values()), strict=True))
        write_whole(path, text.getvalue().encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        """A table that `write` wrote."""
        if not path.is_file():
            raise InvalidFile(f"{path} does not exist", fix="run surefind evaluate first")
        if path.suffix == ".parquet":
            names, rows = read_parquet(path)
        else:
            with path.open(newline="") as file:
                names, *rows = csv.reader(file)
        return cls(
            {
                name: _typed(name, column)
                for name, column in zip(names, zip(*rows, strict=True), strict=True)
            }
        )


def _typed(name: str, values: tuple[str, ...]) -> NDArray[Any]:
    last = name.split(".")[-1]
    if last == "foreign" or last.startswith("match_"):
        return np.array([value == "True" for value in values])
    if last == "n_matches":
        return np.array(values, dtype=np.int64)
    if last.startswith("distance_") or ".signal." in name or ".probability." in name:
        return np.array(values, dtype=np.float64)
    return np.array(values)
