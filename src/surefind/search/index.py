"""Index of images: create, open, add, search, calibrate."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any, Self, overload
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import surefind
from surefind.confidence.calibration import (
    NEIGHBOURHOODS,
    PRIOR,
    QUERIES,
    Calibrated,
    Calibration,
    check_origin,
    is_stale,
)
from surefind.confidence.class_table import LABEL, ClassTable, ClassTracker
from surefind.confidence.neighbours import LocalDensity
from surefind.embeddings import LARGEST, POINT_VAR, Embeddings, Gaussians, VonMisesFisher
from surefind.engines.base import Engine, EngineError, Queries, Rows, Space
from surefind.engines.filters import Metadata, Value
from surefind.engines.knn import Nearest, engine_view, names_of, nearest
from surefind.engines.registry import attached_url, create_engine, open_engine, same_columns, without_password
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.functional.ranking import RANKINGS
from surefind.search.calibrations import Calibrations, Lazy
from surefind.search.folder import (
    EMBEDDED,
    IndexFolder,
    check_same_model,
    known_roots,
    load_encoder,
    remember_roots,
    upgrade_heads,
)
from surefind.search.hits import IndexedItem, SearchResult
from surefind.search.query import (
    SearchRequest,
    UnknownItem,
    Wanted,
    answer,
    as_vectors,
    parse_where,
    search_request,
    variant_of,
)
from surefind.storage import make_writable
from surefind.text import Summary
from surefind.validation import check_choice, check_whole

if TYPE_CHECKING:  # a search loads none of these
    from surefind.confidence.calibrate import CalibrationTargets, Progress
    from surefind.confidence.drift import Drift
    from surefind.confidence.labelled_queries import LabelledQueries
    from surefind.encoders.image_encoder import ImageEncoder
    from surefind.encoders.open import Model
    from surefind.images.catalog import Catalog
    from surefind.images.decode import ImageSource
    from surefind.search.ingest import Added, Images

DEFAULT_RANKING = "mean"  # expected distance retrieved better with no model measured


class Index(Summary):
    """Searchable images: a vector store, the encoder, and the calibration, in a folder.

    Use `create`, `create_empty` or `open`.
    """

    def __init__(
        self, folder: IndexFolder, engine: Engine, encoder: ImageEncoder | None = None, *, url: str | None = None
    ) -> None:
        self._folder, self._engine, self._given_encoder = folder, engine, encoder
        self._url = url  # of the engine, if it is not the saved one
        fingerprint = self.fingerprint  # indexes share the encoder: it must not refer to `self`
        self._encoder = Lazy(lambda: load_encoder(folder, fingerprint) if encoder is None else encoder)
        self._upgrade_heads = Lazy(lambda: upgrade_heads(folder, fingerprint))
        self._classes = ClassTracker(engine, folder.documents)
        self._calibrations = Calibrations(folder, engine, self._classes)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        encoder: Model,
        images: Images | None = None,
        *,
        engine: str = EMBEDDED,
        kind: str = "auto",
        ranking: str = DEFAULT_RANKING,
        duplicates: str = "skip",
        max_bad_share: float = 0.05,
        calibrate: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> Self:
        """Create an index of images; if they have labels, it is calibrated with them.

        Args:
            folder: Folder to create; the encoder is saved in it.
            encoder: Encoder of the images, or what `surefind.encoders.open_encoder` takes: a timm
                name such as "mobilenetv2_100", a model folder, a function.
            images: Catalog, folder, table, DataFrame, or a sequence of images to add.
            engine: Vector store: faiss, `pgvector://...` or `milvus://...`.
            kind: Kind of search structure: auto, flat, hnsw or ivf.
            ranking: Order native to the engine, mean or expected.
            duplicates: skip or keep images with the content of another.
            max_bad_share: Share of unreadable images that is tolerated.
            calibrate: Calibrate with the labels of the images, if they have any.
            progress: Called with the number of images done.

        Raises:
            InvalidFile: The folder holds an index already.
            InvalidArgument: An argument is invalid, or the server holds rows of another model.
        """
        from surefind.encoders.open import open_encoder

        encoder = open_encoder(encoder)
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
            if calibrate:
                index.calibrate_itself()
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
        """Create an index for embeddings of a model with this fingerprint.

        Rows that a server already holds under that name are kept if the same model made them.
        """
        place = IndexFolder(Path(folder))
        if place.exists():
            raise InvalidFile(
                f"{place.path} holds an index already", fix="open it to add to it, or choose another folder"
            )
        make_writable(place.path)
        facts = {
            "fingerprint": fingerprint,
            "gallery": uuid4().hex,  # its keys are valid in no other
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "surefind": surefind.__version__,
        }
        store = place.place(engine)
        try:
            opened = open_engine(store)
        except SurefindError:
            opened = create_engine(store, space, facts, kind=kind)
        if opened.facts.get("fingerprint") != fingerprint or opened.space != space:
            opened.close()
            raise InvalidArgument(
                "engine",
                expected="a place that is new, or holds rows of the same model and ranking",
                got=f"{without_password(store)}, made with another",
            )
        if encoder is not None:
            from surefind.encoders.encoder import Encoder
            from surefind.encoders.onnx import OnnxEncoder

            if isinstance(encoder, Encoder | OnnxEncoder):
                encoder.save(place.model)
        place.write(engine)  # last: without it the folder counts as unfinished
        index = cls(place, opened, encoder, url=None if engine == EMBEDDED else engine)
        if not opened.count():
            index._classes.start_empty()
        return index

    @classmethod
    def attach(
        cls,
        folder: str | Path,
        url: str,
        *,
        vector: str,
        id: str = "id",  # noqa: A002
        label: str | None = None,
        metric: str = "l2",
    ) -> Self:
        """Create an index of vectors that another program keeps on a server; they are only read.

        Args:
            folder: Folder to create, for calibrations.
            url: `pgvector://USER@HOST/DATABASE/TABLE` (or a view) or
                `milvus://HOST:PORT/COLLECTION`.
            vector: Column of vectors.
            id: Column of ids.
            label: Column of labels.
            metric: l2, cosine or ip (inner product of vectors of length 1).

        Raises:
            InvalidFile: The folder holds an index already.
            InvalidArgument: A column is not there or of another type.
            EngineError: The server cannot be reached, or holds no such table.
        """
        place = attached_url(url, vector=vector, id=id, label=label, metric=metric)
        with closing(open_engine(place)) as found:
            space, fingerprint = found.space, str(found.facts["fingerprint"])
        return cls.create_empty(folder, space, fingerprint=fingerprint, engine=place)

    @classmethod
    def open(cls, folder: str | Path, *, engine: str | None = None, encoder: Model | None = None) -> Self:
        """Open an index.

        Args:
            folder: Folder of the index.
            engine: URL that replaces the saved one, which has no password; columns of an attached
                table need not be repeated.
            encoder: Encoder (as for `create`) that replaces the saved one; needed to search with
                images if a function made the index.

        Raises:
            InvalidFile: The folder holds no index, or it is damaged.
            InvalidArgument: The encoder did not make the index.
        """
        place = IndexFolder(Path(folder))
        written = place.read()
        store = written if engine is None else same_columns(engine, written)
        if encoder is None:
            return cls(place, open_engine(place.place(store)), url=engine)
        from surefind.encoders.open import open_encoder

        index = cls(place, open_engine(place.place(store)), open_encoder(encoder), url=engine)
        index.check_model(index.encoder.fingerprint, "the given encoder")
        return index

    @property
    def folder(self) -> Path:
        return self._folder.path

    @property
    def space(self) -> Space:
        return self._engine.space

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model that made the rows."""
        return str(self._engine.facts["fingerprint"])

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._engine.warnings

    @property
    def encoder(self) -> ImageEncoder:
        return self._encoder.get()

    @property
    def picture_roots(self) -> tuple[Path, ...]:
        """Folders that images were added from; () if unknown."""
        return known_roots(self._folder.documents)

    def __len__(self) -> int:
        return self._engine.count()

    def __contains__(self, id: object) -> bool:  # noqa: A002
        return isinstance(id, str) and bool(self._engine.digests_of([id]))

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of all images."""
        for block in self._engine.scan():
            yield from self._engine.records(block.keys).ids

    def __getitem__(self, id: str) -> IndexedItem:  # noqa: A002
        """Return the image with an id; raise UnknownItem, a KeyError, if there is none."""
        rows = self._found(id)
        return IndexedItem(rows.ids[0], rows.metadata[0], rows.embeddings, rows.digests[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self).open, self.folder, engine=self._url, encoder=self._given_encoder), ()

    def update(self, id: str, metadata: Mapping[str, Value | None]) -> None:  # noqa: A002
        """Change metadata of an image; None removes a field, others stay.

        Raises:
            UnknownItem: No image has this id.
            InvalidArgument: A value cannot be stored.
        """
        rows = self._found(id)
        changed = {**rows.metadata[0], **metadata}
        kept = {name: value for name, value in changed.items() if value is not None}
        self._add_rows(dataclasses.replace(rows, metadata=(kept,)))

    def _found(self, id: str) -> Rows:  # noqa: A002
        rows = self._engine.find([id])
        if not len(rows):
            raise UnknownItem(f"no image of the index has the id {id[:80]!r}")
        return rows

    def _facts(self) -> dict[str, object]:
        facts = {"folder": self.folder, "dim": self.space.dim, "ranking": self.space.ranking}
        try:
            return {**facts, "images": len(self)}
        except SurefindError:  # closed, or a server that is away
            return facts

    def count(self, where: Wanted = None) -> int:
        """Return the number of images, or of those that satisfy a filter."""
        return self._engine.count(parse_where(where))

    def add(
        self,
        images: Images,
        *,
        ids: Sequence[str] | None = None,
        metadata: Sequence[Metadata] | None = None,
        duplicates: str = "skip",
        replace: bool = False,
        max_bad_share: float = 0.05,
        recalibrate: bool = True,
        progress: Callable[[int], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Added:
        """Encode and add images; unchanged known ones are skipped. Can be stopped and resumed.

        Args:
            images: Catalog, folder, table, or a sequence of images.
            ids: Ids; by default paths or digests.
            metadata: Metadata per image.
            duplicates: skip (and report) or keep images with the content of another.
            replace: Replace known ids that have other content, instead of raising.
            max_bad_share: Share of unreadable images that is tolerated.
            recalibrate: Calibrate again if the index grew by more than a fifth.
            progress: Called with the number of images done.
            should_stop: Checked before every chunk.

        Returns:
            Numbers of added, known, replaced images; duplicates and rejected images.

        Raises:
            InvalidArgument: An id is known with other content, or an argument is invalid.
            TooManyRejected: More unreadable images than `max_bad_share`.
        """
        from surefind.search.ingest import add_pictures, pictures_of

        check_choice("duplicates", duplicates, ("skip", "keep"))
        pictures = pictures_of(images, ids, metadata)
        if not len(pictures):
            raise SurefindError("no images to add")
        remember_roots(self._folder.documents, pictures.roots)
        added = add_pictures(
            self._engine,
            self._add_rows,
            self.encoder,
            pictures,
            keep_duplicates=duplicates == "keep",
            replace=replace,
            max_bad_share=max_bad_share,
            progress=progress,
            should_stop=should_stop,
        )
        if recalibrate and not added.stopped:
            self.recalibrate_if_stale()
        return added

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
        """Add embeddings; `fingerprint`, if given, must be that of the index's model."""
        if fingerprint is not None:
            self.check_model(fingerprint, "what made the embeddings")
        import torch

        self.space.check(embeddings)
        if not replace and (known := list(self._engine.digests_of(ids))):
            from surefind.search.ingest import already_there

            raise already_there(known)
        self._add_rows(
            Rows(
                ids=tuple(ids),
                embeddings=embeddings.detach().to("cpu").to(torch.float32),
                digests=tuple(digests) if digests is not None else ("",) * len(ids),
                metadata=tuple(metadata) if metadata is not None else ({},) * len(ids),
            )
        )
        self.recalibrate_if_stale()

    def known(self, ids: Sequence[str]) -> set[str]:
        """Return which of the ids are in the index."""
        return set(self._engine.digests_of(ids))

    def items(self, ids: Sequence[str]) -> Rows:
        """Return the rows with these ids, in order; unknown ids are skipped."""
        return self._engine.find(ids)

    def remove(self, ids: Sequence[str]) -> int:
        """Remove images; return how many there were."""
        self._calibrations.judges = {}
        removed = self._classes.remove([ids] if isinstance(ids, str) else ids)
        self.recalibrate_if_stale()
        return removed

    def _add_rows(self, rows: Rows) -> None:
        self._calibrations.judges = {}  # their classes change
        self._classes.add(rows)

    def class_table(self, field: str = LABEL) -> ClassTable:
        """Number, mean and spread of each class; kept with the index."""
        return self._classes.table(field)

    def ids(self, near: Nearest) -> list[list[str]]:
        """Return the ids of a result of `nearest`, one list per query."""
        names = names_of(self._engine, near).tolist()
        return [its[:count] for its, count in zip(names, near.found.tolist(), strict=True)]

    def snapshot(self, folder: str | Path, *, kind: str = "auto") -> Self:
        """Copy the index as it is now to a folder, whatever its engine."""
        encoder = self.encoder if self.has_model else None
        copy = type(self).create_empty(folder, self.space, fingerprint=self.fingerprint, kind=kind, encoder=encoder)
        for block in self._engine.scan():
            copy._engine.add(self._engine.rows(block.keys))
        if self._folder.upgrade.exists():
            copytree(self._folder.upgrade, copy._folder.upgrade)
        remember_roots(copy._folder.documents, self.picture_roots)
        if self.calibrated is not None:
            copy.adopt(self.calibrated)
        return copy

    def refresh(self) -> bool:
        """Reload what other processes wrote; return whether there was anything."""
        self._calibrations.reload()
        return self._engine.refresh()

    def compact(self) -> None:
        """Optimise the search structure; builds a graph if there are many rows."""
        self._classes.compact()

    def verify(self) -> list[str]:
        """Read everything; return the problems found."""
        problems = [*self._engine.verify(), *self._folder.documents.problems()]
        for read in (lambda: self.has_model and self.encoder, lambda: self.calibrated):
            try:
                read()
            except SurefindError as error:
                problems.append(error.problem)
        return list(dict.fromkeys(problems))

    def repair(self) -> str:
        """Rebuild derived data, such as a damaged graph; return what was done."""
        repair = getattr(self._engine, "repair", None)
        if repair is None:
            raise EngineError("this engine repairs itself", fix="restore the server's data from a backup")
        return "; ".join(repair()) or "there was nothing to repair"

    def describe(self) -> dict[str, Any]:
        """Facts about the index, for people."""
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
        """Whether queries can be images; False for an index of vectors."""
        return self._given_encoder is not None or self._folder.model.exists()

    def check_model(self, fingerprint: str, whose: str) -> None:
        """Raise InvalidArgument unless this is the fingerprint of the index."""
        check_same_model(fingerprint, self.fingerprint, whose=whose)

    @overload  # str is a path, though also a sequence of str
    def search(  # type: ignore[overload-overlap]
        self,
        queries: ImageSource,
        k: int = ...,
        *,
        ranking: str | None = ...,
        where: Wanted = ...,
        radius: float | None = ...,
        expand: int = ...,
        kind: str = ...,
    ) -> SearchResult: ...

    @overload
    def search(
        self,
        queries: Sequence[ImageSource] | Embeddings | Sequence[Sequence[float]],
        k: int = ...,
        *,
        ranking: str | None = ...,
        where: Wanted = ...,
        radius: float | None = ...,
        expand: int = ...,
        kind: str = ...,
    ) -> list[SearchResult]: ...

    def search(
        self,
        queries: ImageSource | Sequence[ImageSource] | Embeddings | Sequence[Sequence[float]],
        k: int = 5,
        *,
        ranking: str | None = None,
        where: Wanted = None,
        radius: float | None = None,
        expand: int = 0,
        kind: str = "",
    ) -> SearchResult | list[SearchResult]:
        """Search the k nearest images.

        Args:
            queries: One image (path, bytes, PIL image, array), several, embeddings, or vectors:
                an array, a tensor or lists, (D,) or (N, D).
            k: Number of hits; if there are fewer images, all are returned.
            ranking: confidence (default if calibrated), mean or expected distance.
            where: Filter, such as "label=cat".
            radius: If given, each hit has the probability of being within it.
            expand: Number of neighbours for query expansion, weighted by certainty.
            kind: Kind of the queries if they are not like the images, such as "text": it needs a
                calibration of its own.

        Returns:
            A result for one image or vector, else a list of results.

        Raises:
            InvalidArgument: An option is invalid, or k exceeds the limit of the engine.
            ImageRejected: A query is not a readable image.
        """
        request = self.check_search(k, ranking=ranking, where=where, radius=radius, expand=expand, kind=kind)
        vectors = as_vectors(queries, self.space.dim if self.has_model else None)
        query = queries if vectors is None else self.as_queries(vectors)
        if isinstance(query, Embeddings | Queries):
            names = [f"embedding {row}" for row in range(len(query.mean))]
            results = self.answer(query, names, request)
            return results[0] if vectors is not None and vectors.ndim == 1 else results
        from surefind.encoders.image_encoder import list_images
        from surefind.search.ingest import name_of

        if not isinstance(queries, Iterable | Image.Image | Path):
            raise InvalidArgument("queries", expected="images or vectors", got=repr(queries))
        images = list(list_images(queries))
        names = [name_of(source) for source in images]
        results = self.answer(self.encoder.encode(images), names, request)
        return results[0] if len(images) == 1 and images[0] is queries else results

    def embed(self, vectors: NDArray[np.floating]) -> Embeddings:
        """Return vectors (N, D) of the model that made the index as embeddings.

        Their variance is that of the heads an upgrade learned, or that of points.

        Raises:
            InvalidArgument: They have another width, or are not finite.
        """
        import torch

        mean = torch.from_numpy(np.atleast_2d(vectors).astype(np.float32))
        if mean.shape[1] != self.space.dim:
            raise InvalidArgument("vectors", expected=f"{self.space.dim} numbers each", got=str(mean.shape[1]))
        heads = self._upgrade_heads.get()
        var = mean.new_full((len(mean),), POINT_VAR) if heads is None else heads.var(mean)
        if self.space.family == Gaussians.family:
            return Gaussians(mean, var)
        return VonMisesFisher(torch.nn.functional.normalize(mean, dim=1), 1 / var)

    def as_queries(self, vectors: NDArray[np.floating]) -> Queries:
        """Return what `embed` does as arrays: of points without torch, which takes a second to load."""
        mean = np.atleast_2d(vectors).astype(np.float32)
        fits = mean.shape[1] == self.space.dim and bool((np.abs(mean) <= LARGEST).all())
        plain = self.space.family == Gaussians.family and self._upgrade_heads.get() is None
        return self.space.queries(mean if fits and plain else self.embed(vectors))

    def search_views(
        self,
        views: Sequence[ImageSource] | Embeddings,
        k: int = 5,
        *,
        ranking: str | None = None,
        where: Wanted = None,
        radius: float | None = None,
        expand: int = 0,
        kind: str = "",
        correlation: float = 0.0,
    ) -> SearchResult:
        """Search with several views of one item, fused by their precision.

        `correlation` of the views is from 0 (independent) to 1 (all count as one). See `search`.
        """
        if not len(views):
            raise InvalidArgument("views", expected="at least one", got="none")
        request = self.check_search(
            k, ranking=ranking, where=where, radius=radius, expand=expand, kind=kind, views=len(views)
        )
        encoded = views if isinstance(views, Embeddings) else self.encoder.encode(views)
        from surefind.functional import fuse

        fused = fuse(encoded, correlation=correlation)
        return self.answer(fused, [f"{len(views)} views"], request)[0]

    def neighbours(
        self,
        id: str,  # noqa: A002
        k: int = 5,
        *,
        ranking: str | None = None,
        where: Wanted = None,
    ) -> SearchResult:
        """Search the neighbours of an image of the index, judged as if it were not in the index.

        Raises:
            UnknownItem: No image has this id.
        """
        rows = self._found(id)
        return self.answer(rows.embeddings, [id], self.check_search(k, ranking=ranking, where=where, inside=rows))[0]

    def nearest(self, query: Embeddings, k: int = 5, *, ranking: str | None = None, where: Wanted = None) -> Nearest:
        """Search many queries; return arrays without metadata."""
        request = search_request(self._engine, k, ranking, where)
        return nearest(self._engine, query, request.k, ranking=request.ranking, where=request.where)

    def check_search(
        self, k: int = 5, *, ranking: str | None = None, where: Wanted = None, **options: Any
    ) -> SearchRequest:
        """Raise InvalidArgument if `search` would refuse these options; else return them, checked."""
        calibrated = self.calibrated is not None
        return search_request(self._engine, k, ranking, where, calibrated=calibrated, **options)

    def answer(self, query: Embeddings | Queries, names: Sequence[str], request: SearchRequest) -> list[SearchResult]:
        """Search with these names of the queries, and options that `check_search` returned."""
        return answer(self._engine, query, names, request, self._calibrations.judge_of(request))

    def calibrate(
        self,
        labelled: Catalog | str | Path | Embeddings | None = None,
        *,
        labels: Sequence[object] | None = None,
        targets: CalibrationTargets | None = None,
        use_labels: bool | None = None,
        label: str = LABEL,
        again: bool = False,
        where: Wanted = None,
        views: int = 1,
        ranking: str | None = None,
        kind: str = "",
        learn_variance: bool = True,
        seed: int = 0,
        progress: Progress = lambda *_: None,
    ) -> Calibration:
        """Fit a calibration to labelled queries; later searches have confidence and verdicts.

        With `where`, `views`, `ranking` or `kind` it is for such searches only, and kept beside
        the one for plain searches.

        Args:
            labelled: Catalog or source of one, embeddings, or None for the images of the index.
                Use classes that the model was not trained on.
            labels: Labels of embeddings.
            targets: Requested precision, miss rate, novelty level.
            use_labels: Judge hits by the labels of the index, which answers queries with a label;
                by default if at least half of its images have one.
            label: Metadata field of the labels.
            again: Use the queries and targets of the last calibration for plain searches.
            where: For searches with this filter.
            views: For searches with so many views of one item.
            ranking: For searches in this ranking, mean or expected.
            kind: For queries of this kind, such as "text".
            learn_variance: Also learn the variance of queries, as evidence; only without labels.
            seed: Seed of sampling and training.
            progress: Called with stage, done, total.

        Returns:
            The calibration, which is saved in place of an earlier one.

        Raises:
            InvalidArgument: `use_labels` for an index without any; or without labels too few
                queries, classes, or right and wrong hits.
        """
        from surefind.confidence import calibrate, label_calibration, labelled_queries  # not needed to search
        from surefind.encoders.serialization import read_classes

        given, where = self._given_encoder, parse_where(where)
        trained_with = read_classes(self._folder.model) if given is None else given.trained_with
        check_whole("views", views)
        ranking = self.space.ranking if ranking is None else ranking
        check_choice("ranking", ranking, RANKINGS)
        variant = variant_of(self._engine, where=where, views=views, ranking=ranking, kind=kind)
        engine = engine_view(self._engine, where=where, ranking=ranking)
        kept = None
        if again:
            last = self._calibrations.required().calibrated.calibration
            targets, label = targets or calibrate.targets_of(last), last.origin.field
            use_labels = last.origin.evidence != NEIGHBOURHOODS
            learn_variance = learn_variance and self.calibrated is not None and self.calibrated.heads is not None
            kept = labelled_queries.read_queries(self._folder.documents.read(QUERIES).get(QUERIES))
        targets = targets or calibrate.CalibrationTargets()
        table = self._calibrations.class_table(label, where)
        if use_labels and not again and not table.images:
            raise InvalidArgument("index", expected=f"images with labels ({label})", got=f"{engine.count()} without")
        if use_labels is None:
            use_labels = table.images > 0 and 2 * table.images >= engine.count()
        queries: LabelledQueries | None
        if kept is not None:
            queries, source, too_few = *kept, None
        else:
            queries, source, too_few = calibrate.load_labelled_queries(
                engine,
                lambda: self.encoder,
                labelled,
                labels,
                field=label,
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
            calibrated = label_calibration.calibrate_labels(
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
            learned = calibrate.learned_variance(queries, seed=seed, progress=progress) if learn_variance else None
            calibrated = calibrate.calibrate_engine(
                engine,
                queries,
                targets,
                source=source,
                query_variance=learned,
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
        self._calibrations.keep(replace(calibrated, calibration=calibration), queries if keep else None)
        return calibration

    def calibrate_itself(
        self, *, targets: CalibrationTargets | None = None, label: str = LABEL, progress: Progress = lambda *_: None
    ) -> Calibration | None:
        """Calibrate with the labels of the indexed images; None if there are none."""
        if not self.class_table(label).images:
            return None
        return self.calibrate(targets=targets, use_labels=True, label=label, progress=progress)

    def recalibrate_if_stale(self) -> None:
        """Calibrate again if the number of images changed by more than a fifth.

        Only if hits are judged by labels; other calibrations take long, and are reported as stale.
        """
        found = self.calibration
        if found is not None and found.origin.evidence != NEIGHBOURHOODS and is_stale(found, len(self)):
            self.calibrate(again=True)

    @property
    def calibrated(self) -> Calibrated | None:
        """Calibration with its local density and variance heads, if calibrated."""
        return self._calibrations.plain

    @property
    def calibration(self) -> Calibration | None:
        calibrated = self.calibrated
        return None if calibrated is None else calibrated.calibration

    def calibration_of(self, result: SearchResult) -> Calibration | None:
        """Return the calibration that judged a result, if any."""
        judge = self._calibrations.judge(result.variant) if result.verdict else None
        return None if judge is None else judge.calibrated.calibration

    def adopt(self, calibrated: Calibrated) -> None:
        """Use the calibration of another gallery with the same model and ranking.

        It is as good as the galleries are alike.
        """
        check_origin(calibrated.calibration.origin, self.fingerprint, self.space.ranking)
        if calibrated.calibration.origin.evidence == NEIGHBOURHOODS:
            calibrated = replace(calibrated, density=LocalDensity.of(self._engine))
        self._calibrations.keep(calibrated)

    def drift(self, queries: Sequence[ImageSource] | Embeddings) -> tuple[Drift, ...]:
        """Compare unlabelled queries with the calibration queries; return what differs."""
        judge = self._calibrations.required()
        query = queries if isinstance(queries, Embeddings) else self.encoder.encode(queries)
        return judge.drift(self._engine, self.space.queries(query))

    def newest(self) -> Self | None:
        """Return the index with what other processes wrote since; None if nothing changed.

        The encoder is shared. This object keeps answering from its own version, except on servers,
        where both share one engine.
        """
        changed = self._calibrations.outdated()
        engine = self._engine.newest()
        if engine is None and not changed:
            return None
        newer = type(self)(self._folder, engine or self._engine, self._given_encoder, url=self._url)
        newer._encoder = self._encoder
        newer._calibrations.judge()  # reads calibration and classes before the first query
        return newer
