"""Add images to an index: ids, digests and metadata; known and bad images; chunks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from surefind.datasets import is_frame, read_catalog
from surefind.encoders.image_encoder import ImageEncoder
from surefind.engines.base import Engine, Rows
from surefind.engines.filters import Metadata
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog
from surefind.images.decode import ImageSource
from surefind.images.loader import Rejection, TooManyRejected, digest_of

Images = Catalog | str | Path | Sequence[ImageSource]


@dataclass(frozen=True)
class Pictures:
    """Images with ids and metadata."""

    sources: Sequence[ImageSource]
    ids: tuple[str, ...]
    metadata: tuple[Metadata, ...]
    roots: tuple[Path, ...] = ()  # folders of the files

    def __len__(self) -> int:
        return len(self.sources)

    def at(self, rows: Sequence[int]) -> "Pictures":
        return Pictures(
            [self.sources[row] for row in rows],
            tuple(self.ids[row] for row in rows),
            tuple(self.metadata[row] for row in rows),
            self.roots,
        )


def pictures_of(images: Images, ids: Sequence[str] | None, metadata: Sequence[Metadata] | None) -> Pictures:
    """Collect images from a catalog, a source of one, or a sequence.

    Default ids are paths in the catalog, file paths, or digests of the content.
    """
    if isinstance(images, str | Path) or is_frame(images):
        images = read_catalog(images)
    if isinstance(images, Catalog):
        sources: Sequence[ImageSource] = images.files
        known, facts = images.ids, images.metadata
        roots = {images.root}
    else:
        sources = list(images)
        paths = [Path(one) if isinstance(one, str | Path) else None for one in sources]
        known = tuple(str(one) if path else digest_of(one)[:32] for one, path in zip(sources, paths, strict=True))
        facts = tuple({"path": str(path.absolute())} if path else {} for path in paths)
        roots = {path.parent for path in paths if path}
    if ids is not None:
        known = tuple(ids)
    given = ({},) * len(sources) if metadata is None else tuple(metadata)
    for name, column in (("ids", known), ("metadata", given)):
        if len(column) != len(sources):
            raise InvalidArgument(name, expected=f"{len(sources)}, one per image", got=str(len(column)))
    facts = tuple({**fact, **more} for fact, more in zip(facts, given, strict=True))
    return Pictures(sources, known, facts, tuple(roots))


def name_of(source: ImageSource) -> str:
    """Name of a query in its result."""
    path = getattr(source, "filename", "") if isinstance(source, Image.Image) else source
    return str(path) if isinstance(path, str | Path) and path else "image"


CHUNK = 1024  # images encoded and committed at a time


class Added(NamedTuple):
    """Outcome of adding images."""

    added: int = 0  # new and replaced
    known: int = 0  # unchanged
    replaced: int = 0  # known id, other content
    duplicates: tuple[tuple[str, str], ...] = ()  # left out: (id, id with the same content)
    rejected: tuple[Rejection, ...] = ()
    stopped: bool = False  # before all were processed

    def plus(self, other: "Added") -> "Added":
        return Added(*map(add, self, other))._replace(stopped=self.stopped or other.stopped)


def add_pictures(
    engine: Engine,
    store: Callable[[Rows], None],
    encoder: ImageEncoder,
    pictures: Pictures,
    *,
    keep_duplicates: bool = False,
    replace: bool = False,
    max_bad_share: float = 0.05,
    progress: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Added:
    """Encode and add images; every chunk is committed, so that an interrupted run can resume.

    `store` adds rows to the engine. `replace` allows known ids with other content.
    """
    total = Added()
    for start in range(0, len(pictures), CHUNK):
        if should_stop is not None and should_stop():
            return total._replace(stopped=True)
        chunk = pictures.at(range(start, min(start + CHUNK, len(pictures))))
        rows, became = _encode_chunk(
            engine, encoder, chunk, first=start, keep_duplicates=keep_duplicates, replace=replace, progress=progress
        )
        total = total.plus(became)
        if len(total.rejected) > max_bad_share * len(pictures) + 1e-9:
            raise TooManyRejected(total.rejected, total=len(pictures), max_bad_share=max_bad_share)
        store(rows)
        if progress is not None:
            progress(start + len(chunk))
    if total.replaced and total.duplicates:  # their originals may be replaced
        left_out = dict(total.duplicates)
        some = pictures.at([row for row, name in enumerate(pictures.ids) if name in left_out])
        again = add_pictures(engine, store, encoder, some, replace=replace, max_bad_share=max_bad_share)
        total = total._replace(duplicates=()).plus(again)
    return total


def _encode_chunk(
    engine: Engine,
    encoder: ImageEncoder,
    chunk: Pictures,
    *,
    first: int,
    keep_duplicates: bool,
    replace: bool,
    progress: Callable[[int], None] | None,
) -> tuple[Rows, Added]:
    """Return the rows to add, and the outcome for the images of the chunk."""
    digests = [digest_of(source) for source in chunk.sources]
    unnamed = [row for row, name in enumerate(chunk.ids) if not _is_text(name)]
    known = engine.digests_of([name for name in chunk.ids if _is_text(name)])
    fresh = [
        row
        for row, name in enumerate(chunk.ids)
        if (not digests[row] or known.get(name) != digests[row]) and row not in unnamed
    ]
    replaced = {chunk.ids[row] for row in fresh if chunk.ids[row] in known and digests[row]}
    if replaced and not replace:
        raise already_there(sorted(replaced))
    copies: dict[int, str] = {}  # rows with the content of another image, and its id
    if not keep_duplicates:
        by_digest = engine.ids_of([digests[row] for row in fresh if digests[row]])
        for row in fresh:
            name, digest = chunk.ids[row], digests[row]
            other = by_digest.setdefault(digest, name) if digest else name
            if other != name and name not in replaced:
                copies[row] = other
    rows = [row for row in fresh if row not in copies]
    encoded = encoder.encode_all(
        [chunk.sources[row] for row in rows],
        max_bad_share=1.0,
        progress=None if progress is None else lambda done: progress(first + done),
    )
    kept = [rows[row] for row in encoded.rows.tolist()]
    new = Rows(
        ids=tuple(chunk.ids[row] for row in kept),
        embeddings=encoded.embeddings,
        digests=tuple(digests[row] for row in kept),
        metadata=tuple(chunk.metadata[row] for row in kept),
    )
    reasons = {rows[bad.row]: bad.reason for bad in encoded.rejected}
    reasons |= dict.fromkeys(unnamed, "its name is not a text: rename it")
    by_id = {chunk.ids[row]: reason for row, reason in reasons.items()}
    reasons |= {row: by_id[other] for row, other in copies.items() if other in by_id}
    return new, Added(
        added=len(kept),
        known=len(chunk) - len(fresh) - len(unnamed),
        replaced=len({chunk.ids[row] for row in kept} & replaced),
        duplicates=tuple((chunk.ids[row], other) for row, other in copies.items() if row not in reasons),
        rejected=tuple(Rejection(first + row, name_of(chunk.sources[row]), reasons[row]) for row in sorted(reasons)),
    )


def already_there(ids: list[str]) -> InvalidArgument:
    return InvalidArgument(
        "ids",
        expected="new ids, or known images unchanged",
        got=f"{len(ids)} that are there with another content, such as {ids[0]!r}",
        fix="replace=True (--replace) if the images changed, else other ids (--prefix)",
    )


def _is_text(name: str) -> bool:
    """Whether a name is valid UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
