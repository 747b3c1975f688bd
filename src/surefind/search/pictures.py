"""Images on their way into an index: where they are, who they are, what is known."""

import hashlib
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from torch import Tensor

from surefind.datasets import read_catalog
from surefind.engines.where import Metadata, Value
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog
from surefind.images.decode import ImageSource

Images = Catalog | str | Path | Sequence[ImageSource]
_READ_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Pictures:
    """Images row by row."""

    sources: Sequence[ImageSource]
    ids: tuple[str, ...]
    metadata: tuple[Metadata, ...]
    roots: tuple[Path, ...] = ()  # folders that they are in

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, rows: slice) -> "Pictures":
        return Pictures(self.sources[rows], self.ids[rows], self.metadata[rows], self.roots)

    def named(self, ids: Container[str]) -> "Pictures":
        """Those that have one of these ids."""
        rows = [row for row, name in enumerate(self.ids) if name in ids]
        return Pictures(
            [self.sources[row] for row in rows],
            tuple(self.ids[row] for row in rows),
            tuple(self.metadata[row] for row in rows),
            self.roots,
        )


def pictures_of(
    images: Images, ids: Sequence[str] | None, metadata: Sequence[Metadata] | None
) -> Pictures:
    """A catalog, a source of one (a folder, a table, a name), or images one by one.

    Without `ids` an image is known by its path in the catalog, its own path, or its content.
    """
    if isinstance(images, str | Path):
        images = read_catalog(images)
    if isinstance(images, Catalog):
        sources: Sequence[ImageSource] = images.files
        known, facts = images.ids, _facts(images)
        roots = {images.root}
    else:
        sources = list(images)
        known = tuple(_name(source) for source in sources)
        facts = tuple(_path(source) for source in sources)
        roots = {Path(one).parent for one in sources if isinstance(one, str | Path)}
    if ids is not None:
        known = tuple(ids)
    given = ({},) * len(sources) if metadata is None else tuple(metadata)
    for name, column in (("ids", known), ("metadata", given)):
        if len(column) != len(sources):
            raise InvalidArgument(
                name, expected=f"{len(sources)}, one per image", got=str(len(column))
            )
    facts = tuple({**fact, **more} for fact, more in zip(facts, given, strict=True))
    return Pictures(sources, known, facts, tuple(roots))


def digest_of(source: ImageSource) -> str:
    """sha256 of the content, in hex; "" for a file that cannot be read."""
    digest = hashlib.sha256()
    if isinstance(source, str | Path):
        try:
            with Path(source).open("rb") as file:
                while piece := file.read(_READ_AT_ONCE):
                    digest.update(piece)
        except (OSError, ValueError):
            return ""  # decoding will say why
    elif isinstance(source, bytes):
        digest.update(source)
    else:
        pixels = source.cpu().numpy() if isinstance(source, Tensor) else np.asarray(source)
        digest.update(f"{pixels.dtype} {pixels.shape}\n".encode())
        digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def name_of(source: ImageSource) -> str:
    """How a query is called in its result."""
    path = getattr(source, "filename", "") if isinstance(source, Image.Image) else source
    return str(path) if isinstance(path, str | Path) and path else "image"


def _name(source: ImageSource) -> str:
    return str(source) if isinstance(source, str | Path) else digest_of(source)[:32]


def _path(source: ImageSource) -> Metadata:
    return {"path": str(Path(source).absolute())} if isinstance(source, str | Path) else {}


def _facts(catalog: Catalog) -> tuple[Metadata, ...]:
    root = catalog.root.absolute()
    rows: list[dict[str, Value]] = [{"path": str(root / path)} for path in catalog.paths]
    for row, label in enumerate(catalog.labels):
        rows[row]["label"] = label
    for row, place in enumerate(catalog.positions):
        names = ("east", "north") if len(place) == 2 else ("earth_x", "earth_y", "earth_z")
        rows[row] |= dict(zip(names, place, strict=True))
    return tuple(rows)
