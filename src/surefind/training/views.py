"""The training images, as random views or plain, at the size of training."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torch.utils.data import Dataset

from surefind.images.catalog import Catalog
from surefind.images.loading import Loader, Rejection
from surefind.images.preprocess import Preprocessing
from surefind.training.augment import Augmentation
from surefind.training.plan import Rows, Stream, rng

BATCH = 64  # images read at once where no step says how many
LARGER = 8 / 7  # images before a random crop, relative to the size of training


class Order(NamedTuple):
    """Load these rows of the catalog for this step."""

    step: int
    rows: Rows


class Loaded(NamedTuple):
    """The images of an order that could be read, and where in it they stood."""

    positions: Rows
    inputs: Tensor
    rejected: list[Rejection]


class TrainingImages(Dataset[Loaded]):
    """Views of images; which ones is decided by the seed, the step and the place in the batch."""

    def __init__(
        self,
        catalog: Catalog,
        preprocessing: Preprocessing,
        *,
        size: int,
        augmentation: Augmentation | None,
        seed: int,
        threads: int,
    ) -> None:
        self.catalog, self.augmentation, self.size = catalog, augmentation, size
        self.seed, self.threads = seed, threads
        read_size = size if augmentation is None else round(LARGER * size)
        self.preprocessing = replace(preprocessing, size=read_size)
        self.kept: Tensor | None = None
        self.unreadable: dict[int, Rejection] = {}

    def keep_in_memory(self) -> list[Rejection]:
        """Decode everything once; later steps only augment."""
        everything = np.arange(len(self.catalog))
        shape = (len(everything), 3, self.preprocessing.size, self.preprocessing.size)
        kept = torch.zeros(shape, dtype=torch.uint8)
        for rows in np.array_split(everything, -(-len(everything) // BATCH)):
            loaded = self._read(rows)
            kept[rows[loaded.positions]] = loaded.inputs
            self.unreadable |= {rejection.row: rejection for rejection in loaded.rejected}
        self.kept = kept
        return list(self.unreadable.values())

    def __getitem__(self, order: Order) -> Loaded:
        """Random views, (n, 3, size, size) uint8."""
        loaded = self._read(order.rows)
        if self.augmentation is None or len(loaded.positions) == 0:
            return loaded
        dice = int(rng(self.seed, Stream.VIEW, order.step).integers(1 << 62))
        views = self.augmentation(loaded.inputs, self.size, torch.Generator().manual_seed(dice))
        return loaded._replace(inputs=views)

    def plain(self, rows: Rows) -> Iterator[tuple[Rows, Tensor]]:
        """The rows that can be read and their pixels, not augmented, some at a time."""
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH]
            loaded = self._read(some)
            pixels = loaded.inputs
            if len(pixels) and pixels.shape[-1] != self.size:
                pixels = interpolate(pixels, size=(self.size,) * 2, mode="bilinear", antialias=True)
            if len(pixels):
                yield some[loaded.positions], pixels

    def _read(self, rows: Rows) -> Loaded:
        if self.kept is not None:
            readable = np.array([row not in self.unreadable for row in rows.tolist()], dtype=bool)
            rejected = [self.unreadable[row] for row in rows[~readable].tolist()]
            return Loaded(np.flatnonzero(readable), self.kept[rows[readable]], rejected)
        loader = Loader(
            [self.catalog.file(int(row)) for row in rows],
            self.preprocessing,
            batch_size=max(1, len(rows)),
            workers=self.threads,
            max_bad_share=1.0,  # the run counts over all its steps
        )
        batches = list(loader)
        rejected = [r._replace(row=int(rows[r.row])) for r in loader.rejected]
        if batches:
            return Loaded(batches[0].rows.numpy(), batches[0].pixels, rejected)
        size = self.preprocessing.size
        return Loaded(
            np.zeros(0, dtype=np.int64),
            torch.zeros((0, 3, size, size), dtype=torch.uint8),
            rejected,
        )
