"""An index: images to search in, and what is known about how sure a hit is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree
from threading import Lock
from typing import Any, Generic, Self, TypeVar, overload
from uuid import uuid4

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import surefind
from surefind.confidence.calibrate import (
    CalibrationTargets,
    Progress,
    calibrate_engine,
    learned_variance,
    load_labelled_queries,
)
from surefind.confidence.calibration import Calibrated, Calibration
from surefind.confidence.density import LocalDensity
from surefind.confidence.drift import Drift
from surefind.confidence.storage import (
    CALIBRATION,
    calibration_documents,
    check_origin,
    read_calibration,
)
from surefind.embeddings import Embeddings
from surefind.encoders.encoder import Encoder
from surefind.encoders.image_encoder import ImageEncoder
from surefind.encoders.onnx.runtime import OnnxEncoder
from surefind.encoders.serialization import read_classes
from surefind.engines.engine import Engine, EngineError, Rows
from surefind.engines.knn import Nearest, names_of, nearest
from surefind.engines.opening import create_engine, open_engine, without_password
from surefind.engines.space import Space
from surefind.engines.where import Metadata, Where
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.files import make_writable
from surefind.functional import fuse
from surefind.images.catalog import Catalog
from surefind.images.decode import ImageSource
from surefind.search.folder import (
    EMBEDDED,
    IndexFolder,
    check_same_model,
    load_encoder,
    saved_fingerprint,
)
from surefind.search.hits import SearchResult
from surefind.search.image_files import known_roots, remember_roots
from surefind.search.ingest import (
    Added,
    Images,
    add_pictures,
    already_there,
    name_of,
    pictures_of,
)
from surefind.search.query import (
    SearchRequest,
    UnknownItem,
    Wanted,
    answer,
    drift_of,
    search_request,
    uncalibrated_reason,
)
from surefind.validation import check_choice

T = TypeVar("T")

DUPLICATES = ("skip", "keep")
DEFAULT_RANKING = "mean"  # no model that was measured retrieves better by expected distance


class _Lazy(Generic[T]):
    """Value that is computed once, when first used, by one thread. Failures are not kept."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._made: tuple[T, ...] = ()
        self._lock = Lock()

    def get(self) -> T:
        with self._lock:
            if self._make is not None:
                self._made = (self._make(),)
                self._make = None  # with all that it holds on to
        return self._made[0]


class Index:
    """Images to search in, and the encoder that made their embeddings, in an engine and a folder.

    Made by `create` or `create_empty`, read by `open`.
    """

    def __init__(
        self, folder: IndexFolder, engine: Engine, encoder: ImageEncoder | None = None
    ) -> None:
        self._folder, self._engine, self._given_encoder = folder, engine, encoder
        fingerprint = self.fingerprint  # not `self`: others share this, and outlive it
        self._encoder = _Lazy[ImageEncoder](
            lambda: load_encoder(folder, fingerprint) if encoder is None else encoder
        )
        self._calibration = _Lazy(self._stored_calibration)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        encoder: ImageEncoder,
        images: Images | None = None,
        *,
        engine: str = EMBEDDED,
        kind: str = "auto",
        ranking: str = DEFAULT_RANKING,
        duplicates: str = "skip",
        max_bad_share: float = 0.05,
        progress: Callable[[int], None] | None = None,
    ) -> Self:
        """An index of images, in a folder or with its rows on a server.

        `engine` is faiss, `pgvector://...` or `milvus://...`; `ranking` (mean or expected) is the
        order that is native to the engine, the other stays available. The encoder is kept in the
        folder.
        """
        empty = encoder.empty()
        index = cls.create_empty(
            folder,
            Space(empty.family, empty.dim, ranking),
            fingerprint=encoder.fingerprint,
            engine=engine,
            kind=kind,
            encoder=encoder,
        )
        if images is not None:
            index.add(images, duplicates=duplicates, max_bad_share=max_bad_share, progress=progress)
        return index

    @classmethod
    def create_empty(
        cls,
        folder: str | Path,
        space: Space,
        *,
        fingerprint: str,
        engine: str = EMBEDDED,
        kind: str = "auto",
        encoder: ImageEncoder | None = None,
    ) -> Self:
        """An index for embeddings that come from elsewhere, known by a fingerprint.

        What a server already holds under that name is joined, if the same model made it.
        """
        place = IndexFolder(Path(folder))
        if place.exists():
            raise InvalidFile(
                f"{place.path} holds an index already",
                fix="open it to add to it, or choose another folder",
            )
        make_writable(place.path)
        facts = {
            "fingerprint": fingerprint,
            "gallery": uuid4().hex,  # its keys mean nothing in another
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "surefind": surefind.__version__,
        }
        opened = _join_or_create(place.place(engine), space, facts, kind)
        if isinstance(encoder, Encoder | OnnxEncoder):
            encoder.save(place.model)
        place.write(engine)  # last: without it the folder is unfinished, and can be made again
        return cls(place, opened, encoder)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        engine: str | None = None,
        encoder: ImageEncoder | None = None,
    ) -> Self:
        """An index that was made before.

        `engine` replaces the URL in the folder, which has no password; `encoder` the saved one.
        """
        place = IndexFolder(Path(folder))
        written = place.read()
        opened = open_engine(place.place(engine or written))
        index = cls(place, opened, encoder)
        if encoder is not None:
            index.check_model(encoder.fingerprint, "the given encoder")
        elif place.model.exists():
            own = saved_fingerprint(place.model, index.fingerprint)
            index.check_model(own, str(place.model))
        return index

    @property
    def folder(self) -> Path:
        return self._folder.path

    @property
    def space(self) -> Space:
        return self._engine.space

    @property
    def fingerprint(self) -> str:
        """Of the model that made the rows."""
        return str(self._engine.facts["fingerprint"])

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._engine.warnings

    @property
    def encoder(self) -> ImageEncoder:
        return self._encoder.get()

    @property
    def picture_roots(self) -> tuple[Path, ...]:
        """The folders that images were added from; none where that is not known."""
        return known_roots(self._folder.documents)

    def __len__(self) -> int:
        return self._engine.count()

    def count(self, where: Where | None = None) -> int:
        return self._engine.count(where)

    def add(
        self,
        images: Images,
        *,
        ids: Sequence[str] | None = None,
        metadata: Sequence[Metadata] | None = None,
        duplicates: str = "skip",
        replace: bool = False,
        max_bad_share: float = 0.05,
        progress: Callable[[int], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Added:
        """Encode images and keep them; those that are there already cost next to nothing.

        A catalog, a folder, a table or images one by one. An image with the content of another is
        left out and reported unless `duplicates` is keep. A known id with another content is an
        error unless `replace`. Stopped in the middle, a second call goes on.
        """
        check_choice("duplicates", duplicates, DUPLICATES)
        pictures = pictures_of(images, ids, metadata)
        if not len(pictures):
            raise SurefindError("no images to add")
        remember_roots(self._folder.documents, pictures.roots)
        return add_pictures(
            self._engine,
            self.encoder,
            pictures,
            keep_duplicates=duplicates == "keep",
            replace=replace,
            max_bad_share=max_bad_share,
            progress=progress,
            should_stop=should_stop,
        )

    def add_embeddings(
        self,
        embeddings: Embeddings,
        ids: Sequence[str],
        *,
        metadata: Sequence[Metadata] | None = None,
        digests: Sequence[str] | None = None,
        fingerprint: str | None = None,
        replace: bool = False,
    ) -> None:
        """Keep embeddings of the index's model, which `fingerprint` proves where it is given."""
        if fingerprint is not None:
            self.check_model(fingerprint, "what made the embeddings")
        self.space.check(embeddings)
        if not replace and (known := list(self._engine.digests_of(ids))):
            raise already_there(known)
        self._engine.add(
            Rows(
                ids=tuple(ids),
                embeddings=embeddings.detach().to("cpu").to(torch.float32),
                digests=tuple(digests) if digests is not None else ("",) * len(ids),
                metadata=tuple(metadata) if metadata is not None else ({},) * len(ids),
            )
        )

    def known(self, ids: Sequence[str]) -> set[str]:
        """Those of the ids that are in the index."""
        return set(self._engine.digests_of(ids))

    def items(self, ids: Sequence[str]) -> Rows:
        """All that is kept of these images, in that order; unknown ids are passed over."""
        return self._engine.find(ids)

    def remove(self, ids: Sequence[str]) -> int:
        """Forget images; how many of them there were."""
        return self._engine.remove([ids] if isinstance(ids, str) else ids)

    def ids(self, near: Nearest) -> list[list[str]]:
        """The ids behind an answer of `nearest`, one list per query."""
        names = names_of(self._engine, near).tolist()
        return [its[:count] for its, count in zip(names, near.found.tolist(), strict=True)]

    def snapshot(self, folder: str | Path, *, kind: str = "auto") -> Self:
        """A copy in a folder of its own, as the index is at this moment, whatever its engine."""
        encoder = self.encoder if self.has_model else None
        copy = type(self).create_empty(
            folder, self.space, fingerprint=self.fingerprint, kind=kind, encoder=encoder
        )
        for block in self._engine.scan():
            copy._engine.add(self._engine.rows(block.keys))
        if self._folder.upgrade.exists():
            copytree(self._folder.upgrade, copy._folder.upgrade)
        remember_roots(copy._folder.documents, self.picture_roots)
        if self.calibrated is not None:
            copy.adopt(self.calibrated)
        return copy

    def refresh(self) -> bool:
        """See what other processes wrote; True if there was anything."""
        self._calibration = _Lazy(self._stored_calibration)
        return self._engine.refresh()

    def compact(self) -> None:
        """Put the rows in their best form for searching; a graph where there are many."""
        self._engine.compact()

    def verify(self) -> list[str]:
        """What is wrong with the index, after reading all of it."""
        problems = [*self._engine.verify(), *self._folder.documents.problems()]
        for read in (
            lambda: self.encoder if self.has_model else None,
            lambda: self.calibrated,
        ):
            try:
                read()
            except SurefindError as error:
                problems.append(error.problem)
        return list(dict.fromkeys(problems))

    def repair(self) -> str:
        """Build what can be built again, such as a damaged graph; says what was done."""
        repair = getattr(self._engine, "repair", None)
        if repair is None:
            raise EngineError(
                "this engine repairs itself", fix="restore the server's data from a backup"
            )
        return "; ".join(repair()) or "there was nothing to repair"

    def describe(self) -> dict[str, Any]:
        """What is in it, for people."""
        engine = self._engine.describe()
        images = engine.pop("rows", None) or len(self)
        return {
            "folder": str(self._folder.path),
            "images": images,
            "family": self.space.family,
            "dim": self.space.dim,
            "ranking": self.space.ranking,
            **self._engine.facts,
            **engine,
            "engine": without_password(self._folder.read()),
            "warnings": list(self.warnings),
            "calibration": None if self.calibration is None else self.calibration.summary(),
        }

    def close(self) -> None:
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def has_model(self) -> bool:
        """Whether it can be asked with images; else its embeddings came from elsewhere."""
        return self._given_encoder is not None or self._folder.model.exists()

    def check_model(self, fingerprint: str, whose: str) -> None:
        """Refuse what another model made."""
        check_same_model(fingerprint, self.fingerprint, whose=whose)

    @overload  # a text is a path, though it is a sequence of texts as well
    def search(  # type: ignore[overload-overlap]
        self,
        queries: ImageSource,
        k: int = ...,
        *,
        ranking: str | None = ...,
        where: Wanted = ...,
        radius: float | None = ...,
        expand: int = ...,
    ) -> SearchResult: ...

    @overload
    def search(
        self,
        queries: Sequence[ImageSource] | Embeddings,
        k: int = ...,
        *,
        ranking: str | None = ...,
        where: Wanted = ...,
        radius: float | None = ...,
        expand: int = ...,
    ) -> list[SearchResult]: ...

    def search(
        self,
        queries: ImageSource | Sequence[ImageSource] | Embeddings,
        k: int = 5,
        *,
        ranking: str | None = None,
        where: Wanted = None,
        radius: float | None = None,
        expand: int = 0,
    ) -> SearchResult | list[SearchResult]:
        """The k nearest images of one query (a result) or of several (a list of results).

        A query is a path, the bytes of a file, a picture or an embedding. `ranking` is expected or
        mean; `where` such as "label=cat"; with `radius`, each hit says how likely it is within.
        `expand` lets so many neighbours help the query, each by its certainty. Asked for more than
        there are, all are returned; for more than the engine can return, InvalidArgument is raised.
        """
        request = search_request(self._engine, k, ranking, where, radius=radius, expand=expand)
        if isinstance(queries, Embeddings):
            names = [f"embedding {row}" for row in range(len(queries))]
            return self._answer(queries, names, request)
        if isinstance(queries, str | Path | bytes | Image.Image | np.ndarray | Tensor):
            return self._answer(self.encoder.encode(queries), [name_of(queries)], request)[0]
        names = [name_of(source) for source in queries]
        return self._answer(self.encoder.encode(queries), names, request)

    def search_views(
        self,
        views: Sequence[ImageSource] | Embeddings,
        k: int = 5,
        *,
        ranking: str | None = None,
        where: Wanted = None,
        radius: float | None = None,
        expand: int = 0,
        correlation: float = 0.0,
    ) -> SearchResult:
        """The k nearest images of one item that is seen in several pictures.

        The surer a picture, the more it counts. Pictures that are alike repeat themselves:
        `correlation` 1 makes all of them count as one.
        """
        if not len(views):
            raise InvalidArgument("views", expected="at least one", got="none")
        request = search_request(self._engine, k, ranking, where, radius=radius, expand=expand)
        encoded = views if isinstance(views, Embeddings) else self.encoder.encode(views)
        fused = fuse(encoded, correlation=correlation)
        return self._answer(fused, [f"{len(encoded)} views"], request, views=len(encoded))[0]

    def neighbours(
        self,
        id: str,  # noqa: A002
        k: int = 5,
        *,
        ranking: str | None = None,
        where: Wanted = None,
    ) -> SearchResult:
        """The k images nearest to one that is in the index, which is not a hit of its own.

        How sure a hit is, is said as if that image were not in the index.
        """
        request = search_request(self._engine, k, ranking, where, inside=True)
        query = self._engine.find([id]).embeddings
        if not len(query):
            raise UnknownItem(f"no image of the index has the id {id[:80]!r}")
        return self._answer(query, [id], request, inside=True)[0]

    def nearest(
        self,
        query: Embeddings,
        k: int = 5,
        *,
        ranking: str | None = None,
        where: Wanted = None,
    ) -> Nearest:
        """The same search in arrays, without what makes a hit readable: for many queries."""
        request = search_request(self._engine, k, ranking, where)
        self.space.check(query)
        return nearest(self._engine, query, request.k, ranking=request.ranking, where=request.where)

    def calibrate(
        self,
        labelled: Catalog | str | Path | Embeddings | None = None,
        *,
        labels: Sequence[object] | None = None,
        targets: CalibrationTargets | None = None,
        learn_variance: bool = True,
        seed: int = 0,
        progress: Progress = lambda *_: None,
    ) -> Calibration:
        """Learn from labelled queries how sure a hit is; from then on every search says so.

        The queries are a catalog or a source of one, embeddings with `labels`, or, if none are
        given, the images of the index, each asked of the others. Their classes should be ones
        that the model was not trained with: those it knows too well. `learn_variance` also learns
        which images are vague. What was calibrated before is replaced.
        """
        queries, source = load_labelled_queries(
            self._engine, lambda: self.encoder, labelled, labels, seed=seed, progress=progress
        )
        calibrated = calibrate_engine(
            self._engine,
            queries,
            targets or CalibrationTargets(),
            source=source,
            query_variance=learned_variance(queries, seed=seed, progress=progress)
            if learn_variance
            else None,
            trained_with=(
                read_classes(self._folder.model)
                if self._given_encoder is None
                else self._given_encoder.trained_with
            ),
            progress=progress,
        )
        self._keep(calibrated)
        return calibrated.calibration

    @property
    def calibrated(self) -> Calibrated | None:
        """What makes hits say how sure they are; none until the index is calibrated."""
        return self._calibration.get()[1]

    @property
    def calibration(self) -> Calibration | None:
        calibrated = self.calibrated
        return None if calibrated is None else calibrated.calibration

    def adopt(self, calibrated: Calibrated) -> None:
        """Use the calibration of another gallery of the same model, searched in the same order.

        It holds as far as the galleries are alike; queries of one's own are better.
        """
        check_origin(calibrated.calibration.origin, self.fingerprint, self.space.ranking)
        self._keep(replace(calibrated, density=LocalDensity.of(self._engine)))

    def drift(self, queries: Sequence[ImageSource] | Embeddings) -> tuple[Drift, ...]:
        """In what queries, which need no labels, are unlike those of the calibration."""
        if self.calibrated is None:
            raise InvalidArgument(
                "index",
                expected="a calibrated index",
                got=f"{self._folder.path}, which is not calibrated",
                fix=f"surefind calibrate {self._folder.path} DATA",
            )
        query = queries if isinstance(queries, Embeddings) else self.encoder.encode(queries)
        return drift_of(self._engine, self.calibrated, query)

    def newest(self) -> Self | None:
        """This index as others left it, with the same encoder; none if nothing changed.

        Its calibration is read. This one goes on answering as it did, unless its rows are on a
        server, where there is only the newest: then both have one engine, which either closes.
        """
        calibration = self._calibration
        if self._folder.documents.digests(CALIBRATION) != calibration.get()[0]:
            calibration = _Lazy(self._stored_calibration)
            calibration.get()
        engine = self._engine.newest()
        if engine is None and calibration is self._calibration:
            return None
        newer = type(self)(self._folder, engine or self._engine, self._given_encoder)
        newer._encoder, newer._calibration = self._encoder, calibration
        return newer

    def _keep(self, calibrated: Calibrated) -> None:
        self._folder.documents.write(calibration_documents(calibrated))
        self._calibration = _Lazy(self._stored_calibration)

    def _stored_calibration(self) -> tuple[list[tuple[str, bytes]], Calibrated | None]:
        """The checksums of its documents, and the calibration in them.

        Should another take its place in between, the checksums are too old, and `newest` reads
        again.
        """
        documents = self._folder.documents
        digests = documents.digests(CALIBRATION)
        if not digests:
            return digests, None
        return digests, read_calibration(
            documents, fingerprint=self.fingerprint, ranking=self.space.ranking
        )

    def _answer(
        self,
        query: Embeddings,
        names: Sequence[str],
        request: SearchRequest,
        *,
        views: int = 1,
        inside: bool = False,
    ) -> list[SearchResult]:
        calibrated: Calibrated | str | None = self.calibrated
        if calibrated is None:
            calibrated = f"not calibrated yet: surefind calibrate {self._folder.path} DATA"
        else:
            calibrated = uncalibrated_reason(self._engine, request, views) or calibrated
        return answer(self._engine, query, names, request, calibrated, inside=inside)


def _join_or_create(place: str, space: Space, facts: Mapping[str, Any], kind: str) -> Engine:
    try:
        engine = open_engine(place)
    except SurefindError as missing:
        try:
            return create_engine(place, space, facts, kind=kind)
        except SurefindError as error:
            raise error from missing
    if engine.facts.get("fingerprint") != facts["fingerprint"] or engine.space != space:
        engine.close()
        raise InvalidArgument(
            "engine",
            expected="a place that is new, or holds rows of the same model and ranking",
            got=f"{without_password(place)}, made with another",
        )
    return engine
