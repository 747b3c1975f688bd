"""What the network is fed: random views of images or stored feature maps, step by step."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torch.utils.data import DataLoader, Dataset

from surefind.distributed import ProcessGroup
from surefind.embeddings import Embeddings
from surefind.encoders.encoder import Encoder
from surefind.errors import SurefindError
from surefind.images.catalog import Catalog
from surefind.images.loader import Loader, Rejection
from surefind.images.matches import Matches
from surefind.images.preprocess import Preprocessing
from surefind.training.augment import Augmentation
from surefind.training.gradient_cache import Embed
from surefind.training.hard_negatives import NegativeCache, TupleBatches, choose_cached_rows
from surefind.training.recipe import Recipe
from surefind.training.sampling import BalancedBatches, BatchPlan, Rows, Stream, rng

MOST_MAP_BYTES = 8 << 30
BATCH = 64  # images read at once where no step says how many
LARGER = 8 / 7  # images before a random crop, relative to the size of training


class LoadRequest(NamedTuple):
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

    def __getitem__(self, order: LoadRequest) -> Loaded:
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
        nothing = torch.zeros((0, 3, *(self.preprocessing.size,) * 2), dtype=torch.uint8)
        return Loaded(np.zeros(0, dtype=np.int64), nothing, rejected)


class Source(Protocol):
    """Where inputs come from, and how they become embeddings."""

    def load(self, orders: Iterator[LoadRequest]) -> Iterator[Loaded]:
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

    def load(self, orders: Iterator[LoadRequest]) -> Iterator[Loaded]:
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
            orders = (
                LoadRequest(int(readable[0]) * views + view, readable) for view in range(views)
            )
            for view, inputs in enumerate([pixels, *(images[order].inputs for order in orders)]):
                features = encoder.features(encoder.prepare(inputs)).half()
                if maps is None:
                    maps = _room_for(len(rows), 1 + views, features)
                maps[first:last, view] = features
            numbers |= {int(row): first + i for i, row in enumerate(readable)}
        if maps is None:
            raise SurefindError("no image can be read", fix="look at them: surefind check DATA")
        return cls(encoder, maps, numbers, images.seed)

    def load(self, orders: Iterator[LoadRequest]) -> Iterator[Loaded]:
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


class StepBatch(NamedTuple):
    """One step: what all processes do, and what this one was given to embed."""

    plan: BatchPlan
    loaded: Loaded
    first: int  # position in the plan of this process's first row


@dataclass
class Batches:
    """The batches of a phase, from any step on; fills the cache of negatives when it is due."""

    recipe: Recipe
    matches: Matches
    rows: Rows
    offset: int  # of this phase among all steps
    source: Source
    group: ProcessGroup
    cache: NegativeCache | None = None

    def between(self, start: int, end: int) -> Iterator[StepBatch]:
        """Those of the steps start ... end - 1 of the phase."""
        mines = self.recipe.batch.kind == "tuples"
        every = self.recipe.mining.every if mines else end
        while start < end:
            stop = min(end, (start // every + 1) * every)
            if mines and (self.cache is None or start % every == 0):
                self.cache = self._fill(start)
            yield from self._load(self._plans(), start, stop)
            start = stop

    def _fill(self, step: int) -> NegativeCache:
        part, seed = self.recipe.mining, self.recipe.seed
        rows = choose_cached_rows(
            self.matches, self.rows, size=part.cache, seed=seed, step=self.offset + step
        )
        ours, embeddings = self.source.embed_rows(rows[self.group.share(len(rows))])
        return NegativeCache(
            self.group.gather_numbers(ours),
            self.group.gather_embeddings(embeddings).to("cpu"),
            step,
        )

    def _plans(self) -> Callable[[int], BatchPlan]:
        batch, mining, seed = self.recipe.batch, self.recipe.mining, self.recipe.seed
        if self.cache is None:
            return BalancedBatches(self.matches, self.rows, batch.classes, batch.images, seed).plan
        return TupleBatches(
            self.matches,
            self.cache,
            tuples=batch.tuples,
            negatives=batch.negatives,
            margin=self.recipe.loss.own_margin,
            candidates=mining.candidates,
            seed=seed,
            uncertainty=mining.uncertainty,
            skip_share=mining.skip_share,
            skip_above=mining.skip_above,
        ).plan

    def _load(
        self, plan_of: Callable[[int], BatchPlan], start: int, end: int
    ) -> Iterator[StepBatch]:
        plans: deque[BatchPlan] = deque()  # loading runs ahead of training

        def orders() -> Iterator[LoadRequest]:
            for step in range(self.offset + start, self.offset + end):
                plan = plan_of(step)
                plans.append(plan)
                yield LoadRequest(step, plan.rows[self.group.share(len(plan.rows))])

        for loaded in self.source.load(orders()):
            plan = plans.popleft()
            yield StepBatch(plan, loaded, self.group.share(len(plan.rows)).start)
