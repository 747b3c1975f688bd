"""Images and the encoder that made their embeddings, in an engine and a folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import torch

from surefind.choices import check_choice
from surefind.embeddings import Embeddings
from surefind.encoders.encoding import ImageEncoder
from surefind.engines.engine import Engine, EngineError, Rows
from surefind.engines.knn import Nearest, names_of
from surefind.engines.opening import open_engine, without_password
from surefind.engines.space import Space
from surefind.engines.where import Metadata, Where
from surefind.errors import SurefindError
from surefind.search.adding import Added, Policy, add_pictures, already_there
from surefind.search.folder import EMBEDDED, IndexFolder
from surefind.search.making import make_index, space_of
from surefind.search.model import check_same_model, load_encoder, saved_fingerprint
from surefind.search.once import Once
from surefind.search.picture_roots import known_roots, read_roots, remember_roots
from surefind.search.pictures import Images, pictures_of

DUPLICATES = ("skip", "keep")
DEFAULT_RANKING = "mean"  # no model that was measured retrieves better by expected distance


class Gallery:
    """Images and the encoder that made their embeddings: made, opened, added to, looked after."""

    def __init__(
        self, folder: IndexFolder, engine: Engine, encoder: ImageEncoder | None = None
    ) -> None:
        self._folder, self._engine, self._given_encoder = folder, engine, encoder
        fingerprint = self.fingerprint  # not `self`: others share this, and outlive it
        self._encoder = Once[ImageEncoder](
            lambda: load_encoder(folder, fingerprint) if encoder is None else encoder
        )

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
        index = cls.create_empty(
            folder,
            space_of(encoder, ranking),
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
        place, opened = make_index(
            IndexFolder(Path(folder)),
            space,
            fingerprint=fingerprint,
            engine=engine,
            kind=kind,
            encoder=encoder,
        )
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
        return known_roots(self._folder.pictures)

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
            raise SurefindError("no images to add", fix="name a folder or files with images")
        remember_roots(self._folder.pictures, pictures.roots)
        policy = Policy(
            keep_duplicates=duplicates == "keep", replace=replace, max_bad_share=max_bad_share
        )
        return add_pictures(
            self._engine,
            self.encoder,
            pictures,
            policy=policy,
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
        self._folder.copy_upgrade(copy._folder)
        remember_roots(copy._folder.pictures, self.picture_roots)
        return copy

    def refresh(self) -> bool:
        """See what other processes wrote; True if there was anything."""
        return self._engine.refresh()

    def compact(self) -> None:
        """Put the rows in their best form for searching; a graph where there are many."""
        self._engine.compact()

    def verify(self) -> list[str]:
        """What is wrong with the index, after reading all of it."""
        problems = self._engine.verify()
        problems += problem_of(lambda: read_roots(self._folder.pictures))
        if self.has_model:
            problems += problem_of(lambda: self.encoder)
        return problems

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


def problem_of(part: Callable[[], object]) -> list[str]:
    """What is wrong with a part of an index, if anything, told by using it."""
    try:
        part()
    except SurefindError as error:
        return [error.problem]
    return []
