"""Pictures to try: of a folder, drawn anew, or of the gallery itself."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from PIL import Image

from surefind.datasets.folder import find_images
from surefind.errors import InvalidFile
from surefind.images.decode import ImageRejected, decode_picture
from surefind.serve.gallery.drawing import as_jpeg, as_png, shrunk
from surefind.serve.gallery.sketch import Sketch

MOST = 12
LOSSLESS = 1_000_000  # pixels up to which a picture keeps each of them
LONGEST = 2048  # side of a larger one
QUALITY = 95


@dataclass(frozen=True)
class Sample:
    """A picture without metadata."""

    name: str
    content: bytes
    media_type: str


@dataclass(frozen=True)
class Samples:
    """The first pictures of a folder that can be used, read once; `left_out` says why not."""

    pictures: tuple[Sample, ...]
    left_out: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Self:
        pictures: list[Sample] = []
        left_out: list[str] = []
        for path in find_images(folder):
            if len(pictures) == MOST:
                break
            try:
                pictures.append(_drawn(path, decode_picture(folder / path)))
            except ImageRejected as rejected:
                left_out.append(f"{path}: {rejected.reason}")
        if not pictures:
            raise InvalidFile(
                f"{folder}: none of its {len(left_out)} pictures can be used, such as "
                f"{left_out[0]}",
                fix="put pictures there that can be opened, or leave the folder out",
            )
        return cls(tuple(pictures), tuple(left_out))

    def as_json(self) -> list[dict[str, Any]]:
        rows = []
        for number, picture in enumerate(self.pictures):
            link = f"/v1/samples/{number}"
            rows.append({"name": picture.name, "image": link, "item": None, "thumbnail": link})
        return rows


def gallery_samples(sketch: Sketch, count: int = 8) -> list[dict[str, Any]]:
    """Images of the gallery, of as many labels as there are: one of each before a second of any."""
    seen: Counter[str | None] = Counter()
    turns = []
    for row, label in enumerate(sketch.labels):
        turns.append((seen[label], row))
        seen[label] += 1
    return [
        {
            "name": sketch.ids[row],
            "image": None,
            "item": sketch.items[row],
            "thumbnail": f"/v1/items/{sketch.items[row]}/thumbnail",
        }
        for _, row in sorted(turns)[:count]
    ]


def _drawn(name: str, picture: Image.Image) -> Sample:
    if picture.width * picture.height <= LOSSLESS:
        return Sample(name, as_png(picture), "image/png")
    content = as_jpeg(shrunk(picture, LONGEST), quality=QUALITY)
    return Sample(name, content, "image/jpeg")
