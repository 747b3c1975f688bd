"""What `surefind calibrate` is asked for, and the two things it does: fit, and check queries."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from surefind.cli.parts import PARTS, part_of
from surefind.cli.progress import Tell
from surefind.embeddings import Embeddings
from surefind.errors import InvalidArgument, SurefindError
from surefind.files import make_writable
from surefind.images.catalog import Catalog
from surefind.images.loading import Rejection
from surefind.search.confidence.calibration import Calibration
from surefind.search.confidence.fitting import Wishes
from surefind.search.confidence.observed import check_queries
from surefind.search.confidence.shift import Shift
from surefind.search.index import Index
from surefind.upgrade.upgrade import Upgrade
from surefind.upgrade.vectors import read_vectors
from surefind.validation import check_choice


@dataclass(frozen=True)
class Request:
    """The arguments of the command."""

    folder: Path
    data: str | None = None
    part: str = "all"
    wishes: Wishes = field(default_factory=Wishes)
    learn_doubt: bool = True
    plot: Path | None = None
    engine: str | None = None

    def __post_init__(self) -> None:
        """Before the work, not after it."""
        check_choice("--part", self.part, PARTS)
        if self.data is None and self.part != "all":
            raise InvalidArgument(
                "--part",
                expected="data to take it of",
                got="none",
                fix="name DATA after INDEX, or leave --part out",
            )
        if self.plot is not None:
            _check_plot(self.plot)


class Checked(NamedTuple):
    """In what queries are unlike those of a calibration."""

    queries: int
    shifts: tuple[Shift, ...]
    rejected: tuple[Rejection, ...]
    calibration: Calibration

    def as_dict(self) -> dict[str, Any]:
        return {
            "queries": self.queries,
            "shifts": [asdict(shift) for shift in self.shifts],
            "rejected": [{"path": bad.path, "reason": bad.reason} for bad in self.rejected],
            "calibrated": self.calibration.origin.created,
        }


def fit(request: Request, tell: Tell) -> Calibration:
    upgrade = Upgrade.of_index(request.folder)
    labels: Sequence[str] | None = None
    labelled: Catalog | Embeddings | str | None
    if upgrade is not None and request.data is not None:
        given = read_vectors(request.data)
        labelled, labels = upgrade.embed(given.values), given.labels
    else:
        labelled = _labelled(request)
    with Index.open(request.folder, engine=request.engine) as index:
        return index.calibrate(
            labelled,
            labels=labels,
            wishes=request.wishes,
            learn_doubt=request.learn_doubt,
            progress=tell,
        )


def compare_queries(request: Request, tell: Tell) -> Checked:
    """Encode queries, which need no labels, and compare them with those of the calibration."""
    if request.data is None:
        raise InvalidArgument(
            "DATA",
            expected="queries to check",
            got="none",
            fix=f"surefind calibrate {request.folder} QUERIES --check",
        )
    with Index.open(request.folder, engine=request.engine) as index:
        if index.calibration is None:
            raise SurefindError(
                f"{request.folder} is not calibrated",
                fix=f"surefind calibrate {request.folder} DATA, with labelled queries",
            )
        upgrade = Upgrade.of_index(request.folder)
        if upgrade is not None:
            asking = upgrade.embed(read_vectors(request.data).values)
            return Checked(len(asking), index.shift(asking), (), index.calibration)
        files = _asking(part_of(request.data, request.part)).files
        encoded = index.encoder.encode_all(
            files, progress=lambda done: tell("encoding", done, len(files))
        )
        shifts = index.shift(encoded.embeddings)
        return Checked(len(encoded.rows), shifts, tuple(encoded.rejected), index.calibration)


def _labelled(request: Request) -> Catalog | str | None:
    """All of the data by its name, which is written down; a part as its images."""
    if request.data is None:
        return None
    catalog = part_of(request.data, request.part)
    _check_labels(_asking(catalog), request.data)
    return request.data if request.part == "all" else catalog


def _check_labels(catalog: Catalog, data: str) -> None:
    """What is certain not to do, before a single image is encoded."""
    if not catalog.labels and not catalog.positions:
        raise InvalidArgument(
            "DATA",
            expected="images with labels (or places), so that a hit can be right or wrong",
            got=f"{len(catalog)} without in {data}",
            fix="use a folder with a sub-folder per class, or a table with a label column",
        )
    check_queries(catalog.codes if catalog.labels else np.arange(len(catalog)))


def _asking(catalog: Catalog) -> Catalog:
    """Where data tells queries from a gallery, the queries."""
    return catalog.select(np.flatnonzero(catalog.queries)) if any(catalog.queries) else catalog


def _check_plot(path: Path) -> None:
    from surefind.reports.figures.saving import check_ending

    check_ending(path)
    make_writable(path.parent)
