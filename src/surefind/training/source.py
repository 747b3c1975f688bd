"""What the network is fed at a step: random views, or feature maps that were computed once."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from surefind.embeddings import Embeddings
from surefind.encoders.encoder import Encoder
from surefind.errors import SurefindError
from surefind.training.plan import Rows, Stream, rng
from surefind.training.step import Embed
from surefind.training.views import BATCH, Loaded, Order, TrainingImages

MOST_MAP_BYTES = 8 << 30


class Source(Protocol):
    """Where inputs come from, and how they become embeddings."""

    def load(self, orders: Iterator[Order]) -> Iterator[Loaded]:
        """The inputs of one order after the other."""

    def embed(self, inputs: Tensor) -> Embeddings:
        """With a graph, where one is wanted."""

    def embed_rows(self, rows: Rows) -> tuple[Rows, Embeddings]:
        """The rows that could be read and their embeddings, without augmentation or a graph."""


@dataclass(frozen=True)
class PixelSource:
    """Images, decoded and augmented in worker processes or in threads of this one."""

    encoder: Encoder
    images: TrainingImages
    workers: int

    def load(self, orders: Iterator[Order]) -> Iterator[Loaded]:
        loader: DataLoader[Loaded] = DataLoader(
            self.images,
            sampler=orders,
            batch_size=None,
            num_workers=self.workers,
            collate_fn=_as_it_is,  # type: ignore[arg-type]  # one order at a time, not a list
        )
        yield from loader

    def embed(self, inputs: Tensor) -> Embeddings:
        return self.encoder.embed(self.encoder.features(self.encoder.prepare(inputs)))

    def embed_rows(self, rows: Rows) -> tuple[Rows, Embeddings]:
        return _embed_pieces(self.encoder, self.images.plain(rows), self.embed)


@dataclass(frozen=True)
class FeatureSource:
    """Feature maps of a backbone that does not change, several random views of each image."""

    encoder: Encoder
    maps: Tensor  # (rows, 1 + views, C, H, W) float16; the first is the plain image
    numbers: dict[int, int]  # row of the catalog -> row of `maps`
    seed: int

    @classmethod
    @torch.no_grad()
    def compute(
        cls, encoder: Encoder, images: TrainingImages, rows: Rows, *, views: int
    ) -> "FeatureSource":
        """Every image as it is and, where there is augmentation, `views` random views of it."""
        encoder.eval()
        views = 0 if images.augmentation is None else views
        maps: Tensor | None = None
        numbers: dict[int, int] = {}
        for readable, pixels in images.plain(rows):
            first, last = len(numbers), len(numbers) + len(readable)
            orders = (Order(int(readable[0]) * views + view, readable) for view in range(views))
            for view, inputs in enumerate([pixels, *(images[order].inputs for order in orders)]):
                features = encoder.features(encoder.prepare(inputs)).half()
                if maps is None:
                    maps = _room_for(len(rows), 1 + views, features)
                maps[first:last, view] = features
            numbers |= {int(row): first + i for i, row in enumerate(readable)}
        if maps is None:
            raise SurefindError("no image can be read", fix="look at them: surefind check DATA")
        return cls(encoder, maps, numbers, images.seed)

    def load(self, orders: Iterator[Order]) -> Iterator[Loaded]:
        for step, rows in orders:
            positions = np.flatnonzero([row in self.numbers for row in rows.tolist()])
            taken = [self.numbers[int(row)] for row in rows[positions]]
            views = rng(self.seed, Stream.VIEW, step).integers(self.maps.shape[1], size=len(taken))
            yield Loaded(positions, self.maps[taken, views], [])

    def embed(self, inputs: Tensor) -> Embeddings:
        return self.encoder.embed(inputs.to(self.encoder.device).float())

    def embed_rows(self, rows: Rows) -> tuple[Rows, Embeddings]:
        known = np.array([row for row in rows.tolist() if row in self.numbers], dtype=np.int64)
        pieces = (known[start : start + BATCH] for start in range(0, len(known), BATCH))
        maps = ((piece, self.maps[[self.numbers[int(r)] for r in piece], 0]) for piece in pieces)
        return _embed_pieces(self.encoder, maps, self.embed)


def _embed_pieces(
    encoder: Encoder, pieces: Iterable[tuple[Rows, Tensor]], embed: Embed
) -> tuple[Rows, Embeddings]:
    encoder.eval()
    with torch.no_grad():
        done = [(rows, embed(inputs)) for rows, inputs in pieces if len(rows)]
    if not done:
        raise SurefindError("no image can be read", fix="look at them: surefind check DATA")
    family = type(done[0][1])
    return np.concatenate([rows for rows, _ in done]), family.cat([batch for _, batch in done])


def _room_for(rows: int, views: int, features: Tensor) -> Tensor:
    shape = (rows, views, *features.shape[1:])
    size = 2 * int(np.prod(shape))
    if size > MOST_MAP_BYTES:
        raise SurefindError(
            f"the feature maps of {rows} images, {views} views each, need {size >> 30} GB",
            fix="use fewer views (augment.views), smaller images (augment.size), "
            "or train the backbone as well (optimiser.freeze = 'none')",
        )
    return torch.zeros(shape, dtype=torch.float16)


def _as_it_is(loaded: Loaded) -> Loaded:
    return loaded
