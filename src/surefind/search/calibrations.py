"""Calibrations of an index: fitted to labelled queries, kept in its folder, found for a search."""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from surefind.confidence.calibration import (
    CALIBRATION,
    NEIGHBOURHOODS,
    QUERIES,
    Calibrated,
    calibration_documents,
    document_prefix,
    is_stale,
    read_calibration,
)
from surefind.confidence.class_table import ClassTable, ClassTracker
from surefind.confidence.judge import Judge
from surefind.engines.base import Engine
from surefind.engines.filters import Where
from surefind.engines.knn import engine_view
from surefind.errors import InvalidArgument
from surefind.search.folder import IndexFolder
from surefind.search.query import SearchRequest

if TYPE_CHECKING:
    from surefind.confidence.labelled_queries import LabelledQueries

T = TypeVar("T")


class Lazy(Generic[T]):
    """Thread-safe lazily computed value. Failures are not cached."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._made: tuple[T, ...] = ()
        self._lock = Lock()

    def get(self) -> T:
        with self._lock:
            if self._make is not None:
                self._made = (self._make(),)
                self._make = None  # frees what it refers to
        return self._made[0]


class Calibrations:
    """Calibrations of one index: for plain searches, and for variants such as a filter."""

    def __init__(self, folder: IndexFolder, engine: Engine, classes: ClassTracker) -> None:
        self._folder, self._engine, self._classes = folder, engine, classes
        self.reload()

    def reload(self) -> None:
        """Read what is stored when it is needed next."""
        self._stored = Lazy(self._read_stored)
        self.judges: dict[str, Judge] = {}  # by variant

    def outdated(self) -> bool:
        """Whether another process replaced a calibration."""
        return self._folder.documents.digests(CALIBRATION) != self._stored.get()[0]

    @property
    def plain(self) -> Calibrated | None:
        """Calibration for plain searches."""
        return self._stored.get()[1]

    def required(self) -> Judge:
        """Return the calibration for plain searches; raise InvalidArgument if there is none."""
        if (judge := self.judge()) is None:
            raise InvalidArgument(
                "index",
                expected="a calibrated index",
                got=f"{self._folder.path}, which is not calibrated",
                fix=f"surefind calibrate {self._folder.path} DATA",
            )
        return judge

    def class_table(self, field: str, where: Where | None) -> ClassTable:
        """Return the classes of the images that satisfy a filter."""
        if where is None:
            return self._classes.table(field)
        return ClassTable.of(engine_view(self._engine, where=where), field)

    def keep(self, calibrated: Calibrated, queries: LabelledQueries | None = None) -> None:
        """Save a calibration in place of an earlier one, with its queries if given."""
        documents = calibration_documents(calibrated)
        origin = calibrated.calibration.origin
        if not origin.variant:
            documents[QUERIES] = None if queries is None else queries.to_bytes(origin.source)
        self._folder.documents.write(documents)
        self.reload()
        self._classes.save()

    def judge(self, variant: str = "", where: Where | None = None) -> Judge | None:
        """Return the calibration for searches of a variant, if there is one."""
        if variant in self.judges:
            return self.judges[variant]
        calibrated = self.plain
        if variant:
            known = f"{document_prefix(variant)}json" in dict(self._stored.get()[0])
            calibrated = self._read(variant) if known else None
        if calibrated is None:
            return None
        origin = calibrated.calibration.origin
        classes = None if origin.evidence == NEIGHBOURHOODS else self.class_table(origin.field, where)
        guaranteed = (
            calibrated.calibration.guarantee.threshold is not None
            and origin.gallery_id == str(self._engine.facts.get("gallery", ""))
            and not is_stale(calibrated.calibration, self._engine.count(where))
        )
        self.judges[variant] = Judge(calibrated, classes, guaranteed)
        return self.judges[variant]

    def judge_of(self, request: SearchRequest) -> Judge | str:
        """Return what judges the hits of a search, or why there is no confidence."""
        variant, command = request.variant, f"surefind calibrate {self._folder.path}"
        if not request.expand and variant and (judge := self.judge(variant, request.where)):
            return judge
        if request.kind:
            return (
                f"not calibrated for queries of the kind {request.kind!r}: {command} LABELLED.npz --kind {request.kind}"
            )
        judge = self.judge()
        if judge is None:
            return f"not calibrated yet: {command} DATA"
        if not variant and not request.expand:
            return judge
        if judge.classes is None:
            options = "" if request.expand else f"; for these: {command} --again{_options(request)}"
            return f"the index is calibrated without labels, for plain searches{options}"
        return judge._replace(guaranteed=False)

    def _read_stored(self) -> tuple[list[tuple[str, bytes]], Calibrated | None]:
        """Checksums of all calibrations, and the one for plain searches.

        If it is replaced between the two reads, the checksums are outdated.
        """
        digests = self._folder.documents.digests(CALIBRATION)
        plain = any(name.startswith(f"{CALIBRATION}.") for name, _ in digests)
        return digests, self._read() if plain else None

    def _read(self, variant: str = "") -> Calibrated:
        return read_calibration(
            self._folder.documents,
            fingerprint=str(self._engine.facts["fingerprint"]),
            ranking=self._engine.space.ranking,
            variant=variant,
        )


def _options(request: SearchRequest) -> str:
    """Options of `surefind calibrate` for such searches."""
    conditions = () if request.where is None else request.where.conditions
    each = [f"--where {quote(f'{one.field} {one.op} ' + ','.join(map(str, one.values)))}" for one in conditions]
    if request.views > 1:
        each.append(f"--views {request.views}")
    if request.reranked:
        each.append(f"--ranking {request.candidates}")
    return "".join(f" {its}" for its in each)
