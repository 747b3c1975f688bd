"""Result of an evaluation: metrics (results.json) and one row per query (queries.csv)."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from surefind.errors import InvalidFile
from surefind.metrics.intervals import Estimate
from surefind.storage import write_whole
from surefind.validation import parse

PAGE = "report.html"
SHOWN = 10  # neighbours in the table
FORMAT = 4  # since then: no Kendall correlation


@dataclass(frozen=True)
class Exclusion:
    """Images left out for one reason."""

    reason: str
    count: int
    examples: tuple[str, ...] = ()  # the first few paths

    @classmethod
    def of(cls, reason: str, paths: Sequence[str]) -> Self:
        return cls(reason, len(paths), tuple(paths[:5]))


@dataclass(frozen=True)
class Ranking:
    """Metrics of one ranking: by the distance of means, or by the expected distance.

    Metrics that are not defined, as AUROC if every top hit is right, are left out.

    Attributes:
        retrieval: R@k, mAP@k and P@k for every k; MAP@R if enough neighbours were fetched.
        ece: Calibration error of the query variance: ECE@k, by definition.
        signals: By uncertainty signal (higher is less sure). Detection of a wrong top hit: auroc,
            aupr, aurc, e_aurc (AURC above the best possible order), risk_80 (error rate when the
            surest 80 % are answered); spearman, with the error 1 - AP@5; difficulty, with how
            corrupted an image is known to be. Of the cross-fitted probability: ece, brier, nll.
            Detection of foreign queries: ood_auroc, ood_aupr, fpr95 (share of own queries flagged
            when 95 % of the foreign ones are).
    """

    retrieval: dict[str, Estimate]
    ece: dict[str, dict[str, Estimate]]
    signals: dict[str, dict[str, Estimate]]


@dataclass(frozen=True)
class Rung:
    """Results of queries corrupted to one level."""

    kind: str  # blur, occlusion, crop, noise
    level: int  # 0 is the clean image
    recall: float  # R@1
    signals: dict[str, float]  # median of each uncertainty


@dataclass(frozen=True)
class Ladder:
    """Uncertainty and recall by kind and level of corruption."""

    queries: int
    rungs: tuple[Rung, ...]
    # By kind and signal, the mean over queries of the correlation of level and uncertainty.
    spearman: dict[str, dict[str, float]]


@dataclass(frozen=True)
class About:
    """Data, model and settings of an evaluation."""

    data: str  # as the user named it
    data_name: str
    split: str
    root: str  # folder of the pictures
    model: str
    fingerprint: str
    family: str
    dim: int
    protocol: str  # in words: gallery, and what counts as a match
    queries: int  # that were scored
    gallery: int
    classes: int  # 0: matches are by position
    ks: tuple[int, ...]
    resamples: int  # of the bootstrap
    resampled_classes: int = 0  # drawn as a whole by the bootstrap; 0: it drew single queries
    foreign: str = ""  # the out-of-distribution data, as the user named it
    foreign_root: str = ""
    foreign_queries: int = 0
    bars_auroc: float | None = None  # with which black bars alone separate foreign images
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    date: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class EvalResult:
    """Result of `surefind evaluate`."""

    about: About
    rankings: dict[str, Ranking]  # "means", and "expected" where there is a variance
    exclusions: tuple[Exclusion, ...] = ()
    ladder: Ladder | None = None
    format: int = FORMAT

    def write(self, path: Path) -> None:
        write_whole(path, (json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            values = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            fix = "run surefind evaluate first"
            raise InvalidFile(f"cannot read {path}: {error}", fix=fix) from error
        return parse(cls, values, where=path.name)


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

    def __len__(self) -> int:
        return len(self.columns["id"])

    def select(self, rows: NDArray[Any]) -> Self:
        """Return the given rows, by number or by mask."""
        return type(self)({name: column[rows] for name, column in self.columns.items()})

    def own(self) -> Self:
        """Return the scored queries: not foreign, and with a match in the gallery."""
        return self.select(~self["foreign"] & (self["n_matches"] > 0))

    def hits(self, ranking: str) -> NDArray[np.bool_]:
        """Return whether each hit matches, (Q, K), nearest first."""
        start = f"{ranking}.match_"
        return np.stack([self[name] for name in self.columns if name.startswith(start)], axis=1)

    def signals(self, ranking: str) -> dict[str, NDArray[np.float64]]:
        """Return the uncertainty signals by name."""
        start = f"{ranking}.signal."
        return {n.removeprefix(start): self[n] for n in self.columns if n.startswith(start)}

    def write(self, path: Path) -> None:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(self.columns)
        writer.writerows(zip(*(c.tolist() for c in self.columns.values()), strict=True))
        write_whole(path, text.getvalue().encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a table that `write` wrote."""
        if not path.is_file():
            raise InvalidFile(f"{path} does not exist", fix="run surefind evaluate first")
        with path.open(newline="") as file:
            names, *rows = csv.reader(file)
        columns: dict[str, NDArray[Any]] = {}
        for name, values in zip(names, zip(*rows, strict=True), strict=True):
            last = name.split(".")[-1]
            if last == "foreign" or last.startswith("match_"):
                columns[name] = np.array([value == "True" for value in values])
            elif last == "n_matches":
                columns[name] = np.array(values, dtype=np.int64)
            elif last.startswith("distance_") or ".signal." in name or ".probability." in name:
                columns[name] = np.array(values, dtype=np.float64)
            else:
                columns[name] = np.array(values)
        return cls(columns)


class Report(NamedTuple):
    """A result, its queries, and its label in figures."""

    label: str
    result: EvalResult
    queries: QueryTable


def read_report(folder: Path, *, label: str = "") -> Report:
    """Read a report folder; the label is that of the model unless given."""
    result = EvalResult.read(folder / "results.json")
    return Report(label or result.about.model, result, QueryTable.read(folder / "queries.csv"))
