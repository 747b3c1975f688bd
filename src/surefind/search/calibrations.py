"""Calibrations of an index: fitted to labelled queries, kept in its folder, found for a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from surefind.confidence.calibration import (
    CALIBRATION,
    NEIGHBOURHOODS,
    PRIOR,
    QUERIES,
    Calibrated,
    Calibration,
    calibration_documents,
    document_prefix,
    is_stale,
    read_calibration,
)
from surefind.confidence.class_table import ClassTable
from surefind.engines.base import Engine
from surefind.engines.filters import Where
from surefind.engines.view import engine_view
from surefind.errors import InvalidArgument
from surefind.functional.ranking import RANKINGS
from surefind.search.class_tracker import ClassTracker
from surefind.search.folder import IndexFolder
from surefind.search.query import Judge, SearchRequest, variant_of
from surefind.validation import check_choice, check_whole

if TYPE_CHECKING:
    from surefind.confidence.calibrate import CalibrationTargets, Progress
    from surefind.confidence.labelled_queries import LabelledQueries
    from surefind.embeddings import Embeddings
    from surefind.encoders.image_encoder import ImageEncoder
    from surefind.images.catalog import Catalog

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
        self._judges: dict[str, Judge] = {}  # by variant

    def forget_classes(self) -> None:
        """Read the classes of the images again, which are about to change."""
        self._judges = {}

    def outdated(self) -> bool:
        """Whether another process replaced a calibration."""
        return self._folder.documents.digests(CALIBRATION) != self._stored.get()[0]

    @property
    def plain(self) -> Calibrated | None:
        """Calibration for plain searches."""
        return self._stored.get()[1]

    def required(self) -> Calibration:
        """Return the calibration for plain searches; raise InvalidArgument if there is none."""
        if self.plain is None:
            raise InvalidArgument(
                "index",
                expected="a calibrated index",
                got=f"{self._folder.path}, which is not calibrated",
                fix=f"surefind calibrate {self._folder.path} DATA",
            )
        return self.plain.calibration

    def class_table(self, field: str, where: Where | None) -> ClassTable:
        """Return the classes of the images that satisfy a filter."""
        if where is None:
            return self._classes.table(field)
        return ClassTable.of(engine_view(self._engine, where=where), field)

    def fit(
        self,
        labelled: Catalog | str | Path | Embeddings | None,
        labels: Sequence[object] | None,
        encoder: Callable[[], ImageEncoder],
        *,
        targets: CalibrationTargets | None,
        use_labels: bool | None,
        field: str,
        again: bool,
        where: Where | None,
        views: int,
        ranking: str | None,
        kind: str,
        trained_with: frozenset[str],
        learn_variance: bool,
        seed: int,
        progress: Progress,
    ) -> Calibration:
        """Fit and keep a calibration; see `Index.calibrate`."""
        from surefind.confidence import calibrate, labelled_queries  # not needed to search

        check_whole("views", views)
        ranking = self._engine.space.ranking if ranking is None else ranking
        check_choice("ranking", ranking, RANKINGS)
        variant = variant_of(self._engine, where=where, views=views, ranking=ranking, kind=kind)
        engine = engine_view(self._engine, where=where, ranking=ranking)
        kept = None
        if again:
            last = self.required()
            targets, field = targets or calibrate.targets_of(last), last.origin.field
            use_labels = last.origin.evidence != NEIGHBOURHOODS
            learn_variance = learn_variance and self.plain is not None and self.plain.heads is not None
            kept = labelled_queries.read_queries(self._folder.documents.read(QUERIES).get(QUERIES))
        targets = targets or calibrate.CalibrationTargets()
        table = self.class_table(field, where)
        if use_labels and not again and not table.images:
            raise InvalidArgument("index", expected=f"images with labels ({field})", got=f"{engine.count()} without")
        if use_labels is None:
            use_labels = table.images > 0 and 2 * table.images >= engine.count()
        queries: LabelledQueries | None
        too_few = None
        if kept is not None:
            queries, source = kept
        else:
            queries, source, too_few = calibrate.load_labelled_queries(
                engine,
                encoder,
                labelled,
                labels,
                field=field,
                without=trained_with if use_labels and labelled is None else frozenset(),
                at_least=not use_labels,
                seed=seed,
                progress=progress,
            )
        if queries is not None:
            if where is not None:
                queries = queries.satisfying(where)
            if views > 1:
                queries = labelled_queries.fused_queries(queries, views)
        if use_labels:
            calibrated = calibrate.calibrate_labels(
                engine,
                queries,
                table,
                targets,
                source=source,
                too_few=too_few,
                trained_with=trained_with,
                progress=progress,
            )
        else:
            assert queries is not None
            calibrated = calibrate.calibrate_engine(
                engine,
                queries,
                targets,
                source=source,
                query_variance=calibrate.learned_variance(queries, seed=seed, progress=progress)
                if learn_variance
                else None,
                trained_with=trained_with,
                progress=progress,
            )
        origin = calibrated.calibration.origin
        if variant and origin.evidence == PRIOR:
            raise InvalidArgument(
                "labelled",
                expected=f"enough labelled queries for a calibration of its own ({variant})",
                got=origin.remarks[0],
            )
        calibration = replace(calibrated.calibration, origin=replace(origin, variant=variant))
        keep = queries is not None and (labelled is not None or kept is not None)
        self.keep(replace(calibrated, calibration=calibration), queries if keep else None)
        return calibration

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
        if variant in self._judges:
            return self._judges[variant]
        calibrated = self.plain
        if variant:
            known = {name for name, _ in self._stored.get()[0]}
            if f"{document_prefix(variant)}json" not in known:
                return None
            calibrated = self._read(variant)
        if calibrated is None:
            return None
        origin, classes = calibrated.calibration.origin, None
        if origin.evidence != NEIGHBOURHOODS:
            classes = self.class_table(origin.field, where)
        guaranteed = (
            calibrated.calibration.guarantee.threshold is not None
            and origin.gallery_id == str(self._engine.facts.get("gallery", ""))
            and not is_stale(calibrated.calibration, self._engine.count(where))
        )
        self._judges[variant] = Judge(calibrated, classes, guaranteed)
        return self._judges[variant]

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
        plain = any(name.startswith(document_prefix()) for name, _ in digests)
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
