"""An index: images to search in, and what is known about how sure a hit is."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from PIL import Image
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.encoders.classes import read_classes
from surefind.encoders.encoding import ImageEncoder
from surefind.engines.engine import Engine
from surefind.engines.knn import Nearest
from surefind.errors import InvalidArgument
from surefind.functional import fuse
from surefind.images.catalog import Catalog
from surefind.images.decode import ImageSource
from surefind.search.calibrating import (
    Progress,
    calibrate_engine,
    labelled_queries,
    learned_doubt,
)
from surefind.search.confidence.calibrated import Calibrated
from surefind.search.confidence.calibration import Calibration
from surefind.search.confidence.fitting import Wishes
from surefind.search.confidence.saving import check_origin, write_calibration
from surefind.search.confidence.shift import Shift
from surefind.search.folder import IndexFolder
from surefind.search.gallery import Gallery, problem_of
from surefind.search.held_calibration import HeldCalibration
from surefind.search.hits import SearchResult
from surefind.search.neighbourhoods import Neighbourhoods
from surefind.search.pictures import name_of
from surefind.search.query import (
    Question,
    Wanted,
    answer,
    answer_inside,
    find,
    shift_of,
    wanted_rows,
)


class Index(Gallery):
    """Images to search in. Made by `create` or `create_empty`, read by `open`."""

    def __init__(
        self, folder: IndexFolder, engine: Engine, encoder: ImageEncoder | None = None
    ) -> None:
        super().__init__(folder, engine, encoder)
        self._calibration = HeldCalibration(
            folder.calibration, fingerprint=self.fingerprint, ranking=self.space.ranking
        )

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
        asked = self._question(k, ranking, where, radius=radius, expand=expand)
        if isinstance(queries, Embeddings):
            names = [f"embedding {row}" for row in range(len(queries))]
            return self._answer(queries, names, asked)
        if isinstance(queries, str | Path | bytes | Image.Image | np.ndarray | Tensor):
            return self._answer(self.encoder.encode(queries), [name_of(queries)], asked)[0]
        names = [name_of(source) for source in queries]
        return self._answer(self.encoder.encode(queries), names, asked)

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
            raise InvalidArgument(
                "views", expected="at least one", got="none", fix="give a picture"
            )
        asked = self._question(k, ranking, where, radius=radius, expand=expand)
        encoded = views if isinstance(views, Embeddings) else self.encoder.encode(views)
        fused = fuse(encoded, correlation=correlation)
        return self._answer(fused, [f"{len(encoded)} views"], asked, views=len(encoded))[0]

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
        asked = self._question(k, ranking, where, inside=True)
        calibrated, reason = self._judging(asked)
        result = answer_inside(self._engine, id, asked, calibrated=calibrated)
        return result if reason is None else replace(result, uncalibrated=reason)

    def nearest(
        self,
        query: Embeddings,
        k: int = 5,
        *,
        ranking: str | None = None,
        where: Wanted = None,
    ) -> Nearest:
        """The same search in arrays, without what makes a hit readable: for many queries."""
        return find(self._engine, query, self._question(k, ranking, where))

    def calibrate(
        self,
        labelled: Catalog | str | Path | Embeddings | None = None,
        *,
        labels: Sequence[object] | None = None,
        wishes: Wishes | None = None,
        learn_doubt: bool = True,
        seed: int = 0,
        progress: Progress = lambda *_: None,
    ) -> Calibration:
        """Learn from labelled queries how sure a hit is; from then on every search says so.

        The queries are a catalog or a source of one, embeddings with `labels`, or, if none are
        given, the images of the index, each asked of the others. Their classes should be ones
        that the model was not trained with: those it knows too well. `learn_doubt` also learns
        which images are vague. What was calibrated before is replaced.
        """
        queries, source = labelled_queries(
            self._engine,
            lambda: self.encoder,
            labelled,
            labels=labels,
            seed=seed,
            progress=progress,
        )
        calibrated = calibrate_engine(
            self._engine,
            queries,
            wishes or Wishes(),
            ranking=self.space.ranking,
            source=source,
            doubt=learned_doubt(queries, seed=seed, progress=progress) if learn_doubt else None,
            trained_with=self._trained_with,
            progress=progress,
        )
        self._keep(calibrated)
        return calibrated.calibration

    @property
    def calibrated(self) -> Calibrated | None:
        """What makes hits say how sure they are; none until the index is calibrated."""
        return self._calibration.get()

    @property
    def calibration(self) -> Calibration | None:
        calibrated = self.calibrated
        return None if calibrated is None else calibrated.calibration

    def adopt(self, calibrated: Calibrated) -> None:
        """Use the calibration of another gallery of the same model, searched in the same order.

        It holds as far as the galleries are alike; queries of one's own are better.
        """
        check_origin(calibrated.calibration.origin, self.fingerprint, self.space.ranking)
        around = Neighbourhoods.of(self._engine, ranking=self.space.ranking)
        self._keep(replace(calibrated, neighbourhoods=around))

    def shift(self, queries: Sequence[ImageSource] | Embeddings) -> tuple[Shift, ...]:
        """In what queries, which need no labels, are unlike those of the calibration."""
        if self.calibrated is None:
            raise InvalidArgument(
                "index",
                expected="a calibrated index",
                got=f"{self._folder.path}, which is not calibrated",
                fix=f"surefind calibrate {self._folder.path} DATA",
            )
        query = queries if isinstance(queries, Embeddings) else self.encoder.encode(queries)
        return shift_of(self._engine, self.calibrated, query)

    def snapshot(self, folder: str | Path, *, kind: str = "auto") -> Self:
        """A copy in a folder of its own, as the index is at this moment, whatever its engine."""
        copy = super().snapshot(folder, kind=kind)
        if self.calibrated is not None:
            copy.adopt(self.calibrated)
        return copy

    def refresh(self) -> bool:
        """See what other processes wrote; True if there was anything."""
        self._calibration = self._calibration.again()
        return super().refresh()

    def newest(self) -> Self | None:
        """This index as others left it, with the same encoder; none if nothing changed.

        Its calibration is read. This one goes on answering as it did, unless its rows are on a
        server, where there is only the newest: then both have one engine, which either closes.
        """
        calibration = self._calibration.newest()
        engine = self._engine.newest()
        if calibration is None and engine is None:
            return None
        newer = type(self)(self._folder, engine or self._engine, self._given_encoder)
        newer._encoder, newer._calibration = self._encoder, calibration or self._calibration
        return newer

    def verify(self) -> list[str]:
        """What is wrong with the index, after reading all of it."""
        return super().verify() + problem_of(lambda: self.calibrated)

    def describe(self) -> dict[str, Any]:
        """What is in it, for people."""
        known = None if self.calibration is None else self.calibration.summary()
        return super().describe() | {"calibration": known}

    def _keep(self, calibrated: Calibrated) -> None:
        write_calibration(self._folder.calibration, calibrated)
        self._calibration = self._calibration.again()

    def _answer(
        self, query: Embeddings, names: Sequence[str], question: Question, *, views: int = 1
    ) -> list[SearchResult]:
        calibrated, reason = self._judging(question, views=views)
        results = answer(self._engine, query, names, question, calibrated=calibrated)
        if reason is None:
            return results
        return [replace(result, uncalibrated=reason) for result in results]

    def _judging(
        self, question: Question, *, views: int = 1
    ) -> tuple[Calibrated | None, str | None]:
        """What says how sure an answer is, or why nothing does."""
        calibrated = self.calibrated
        if calibrated is None:
            return None, f"not calibrated yet: surefind calibrate {self._folder.path} DATA"
        reason = question.uncalibrated(self.space.ranking, views=views)
        return (calibrated if reason is None else None), reason

    def _question(
        self,
        k: int,
        ranking: str | None,
        where: Wanted,
        *,
        radius: float | None = None,
        expand: int = 0,
        inside: bool = False,
    ) -> Question:
        ranking = self.space.ranking if ranking is None else ranking
        asked = Question(k, ranking, wanted_rows(where), radius=radius, expand=expand)
        asked.check_most(self._engine, inside=inside)
        return asked

    @property
    def _trained_with(self) -> frozenset[str]:
        if self._given_encoder is not None:
            return self._given_encoder.trained_with
        return read_classes(self._folder.model)
