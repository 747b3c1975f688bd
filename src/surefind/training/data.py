"""Training data: augmented images or stored feature maps, batch by batch."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from surefind.distributed import ProcessGroup
from surefind.embeddings import Embeddings
from surefind.encoders.encoder import Encoder
from surefind.errors import SurefindError
from surefind.images.catalog import Catalog
from surefind.images.loader import Loader, Rejection
from surefind.images.matches import Matches
from surefind.images.preprocess import Preprocessing
from surefind.training.recipe import AugmentPart, Recipe
from surefind.training.sampling import (
    BalancedBatches,
    BatchPlan,
    NegativeCache,
    Rows,
    Stream,
    TupleBatches,
    choose_cached_rows,
    rng,
)

MOST_MAP_BYTES = 8 << 30
BATCH = 64  # images read at once outside of training steps
NOTHING_READ = "no image can be read; surefind check DATA names the reasons"
LARGER = 8 / 7  # size before a random crop, relative to the size of training
ASPECT = 4 / 3  # widest crop; its inverse is the tallest
LUMINANCE = (0.299, 0.587, 0.114)


LoadRequest = tuple[int, Rows]  # a step, and the rows of the catalog to load for it


class Loaded(NamedTuple):
    """Images of a request that could be read, and their positions in it."""

    positions: Rows
    inputs: Tensor
    rejected: list[Rejection]


class TrainingImages(Dataset[Loaded]):
    """Augmented images; the views depend on the seed, the step and the position in the batch."""

    def __init__(
        self,
        catalog: Catalog,
        preprocessing: Preprocessing,
        *,
        size: int,
        augmentation: AugmentPart | None,
        seed: int,
        threads: int,
    ) -> None:
        self.catalog, self.augmentation, self.size = catalog, augmentation, size
        self.seed, self.threads = seed, threads
        read_size = size if augmentation is None else round(LARGER * size)
        self.preprocessing = replace(preprocessing, size=read_size)
        self.decoded: Tensor | None = None  # all images, with `keep_in_memory`
        self.unreadable: dict[int, Rejection] = {}

    def keep_in_memory(self) -> list[Rejection]:
        """Decode all images once; later steps only augment."""
        everything = np.arange(len(self.catalog))
        shape = (len(everything), 3, self.preprocessing.size, self.preprocessing.size)
        decoded = torch.zeros(shape, dtype=torch.uint8)
        for rows in np.array_split(everything, -(-len(everything) // BATCH)):
            loaded = self._read(rows)
            decoded[rows[loaded.positions]] = loaded.inputs
            self.unreadable |= {rejection.row: rejection for rejection in loaded.rejected}
        self.decoded = decoded
        return list(self.unreadable.values())

    def __getitem__(self, request: LoadRequest) -> Loaded:
        """Load and augment, (n, 3, size, size) uint8."""
        step, rows = request
        loaded = self._read(rows)
        if self.augmentation is None or len(loaded.positions) == 0:
            return loaded
        seed = int(rng(self.seed, Stream.VIEW, step).integers(1 << 62))
        generator = torch.Generator().manual_seed(seed)
        views = augment(self.augmentation, loaded.inputs, self.size, generator)
        return loaded._replace(inputs=views)

    def plain(self, rows: Rows) -> Iterator[tuple[Rows, Tensor]]:
        """Yield batches of readable rows and their pixels, not augmented."""
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH]
            loaded = self._read(some)
            pixels = loaded.inputs
            if len(pixels) and pixels.shape[-1] != self.size:
                side = (self.size, self.size)
                pixels = functional.interpolate(pixels, size=side, mode="bilinear", antialias=True)
            if len(pixels):
                yield some[loaded.positions], pixels

    def _read(self, rows: Rows) -> Loaded:
        if self.decoded is not None:
            readable = np.array([row not in self.unreadable for row in rows.tolist()], dtype=bool)
            rejected = [self.unreadable[row] for row in rows[~readable].tolist()]
            return Loaded(np.flatnonzero(readable), self.decoded[rows[readable]], rejected)
        loader = Loader(
            [self.catalog.file(int(row)) for row in rows],
            self.preprocessing.resize_image,
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
    """Inputs of the training steps, and how they are embedded; `plain` ones are not augmented."""

    @property
    def encoder(self) -> Encoder: ...
    def load(self, requests: Iterator[LoadRequest]) -> Iterator[Loaded]: ...
    def embed(self, inputs: Tensor) -> Embeddings: ...
    def plain(self, rows: Rows) -> Iterator[tuple[Rows, Tensor]]: ...


@torch.no_grad()
def embed_means(source: Source, rows: Rows) -> tuple[Rows, NDArray[np.float32]]:
    """Return the readable rows and their means (n, D), without augmentation."""
    source.encoder.eval()
    done = [(some, source.embed(inputs).mean) for some, inputs in source.plain(rows)]
    if not done:
        raise SurefindError(NOTHING_READ)
    readable, means = zip(*done, strict=True)
    return np.concatenate(readable), torch.cat(means).float().cpu().numpy()


@dataclass(frozen=True)
class PixelSource:
    """Images, decoded and augmented in worker processes or in threads of this process."""

    encoder: Encoder
    images: TrainingImages
    workers: int

    def load(self, requests: Iterator[LoadRequest]) -> Iterator[Loaded]:
        if self.workers == 0:
            yield from map(self.images.__getitem__, requests)
            return
        # One request at a time, not a list of them.
        yield from DataLoader(
            self.images,
            sampler=requests,
            batch_size=None,
            num_workers=self.workers,
            collate_fn=_identity,  # type: ignore[arg-type]
        )

    def embed(self, inputs: Tensor) -> Embeddings:
        return self.encoder.embed_pixels(self.encoder.prepare(inputs))

    def plain(self, rows: Rows) -> Iterator[tuple[Rows, Tensor]]:
        return self.images.plain(rows)


@dataclass(frozen=True)
class FeatureSource:
    """Stored feature maps of a frozen backbone, for several random views of each image."""

    encoder: Encoder
    maps: Tensor  # (rows, 1 + views, C, H, W) float16; the first is the plain image
    numbers: dict[int, int]  # row of the catalog -> row of `maps`
    seed: int

    @classmethod
    @torch.no_grad()
    def compute(cls, encoder: Encoder, images: TrainingImages, rows: Rows, *, views: int) -> "FeatureSource":
        """Compute the maps of each image and, with augmentation, of `views` random views."""
        encoder.eval()
        views = 0 if images.augmentation is None else views
        maps: Tensor | None = None
        numbers: dict[int, int] = {}
        for readable, pixels in images.plain(rows):
            first, last = len(numbers), len(numbers) + len(readable)
            for view in range(1 + views):
                if view > 0:
                    pixels = images[int(readable[0]) * views + view - 1, readable].inputs
                features = encoder.features(encoder.prepare(pixels)).half()
                if maps is None:
                    shape = (len(rows), 1 + views, *features.shape[1:])
                    if (size := 2 * math.prod(shape)) > MOST_MAP_BYTES:
                        raise SurefindError(
                            f"feature maps of {len(rows)} images, {1 + views} views each, need {size >> 30} GB",
                            fix="lower augment.views or augment.size, or train the backbone as "
                            "well (optimiser.freeze = 'none')",
                        )
                    maps = torch.zeros(shape, dtype=torch.float16)
                maps[first:last, view] = features
            numbers |= {int(row): first + i for i, row in enumerate(readable)}
        if maps is None:
            raise SurefindError(NOTHING_READ)
        return cls(encoder, maps, numbers, images.seed)

    def load(self, requests: Iterator[LoadRequest]) -> Iterator[Loaded]:
        for step, rows in requests:
            positions = np.flatnonzero([row in self.numbers for row in rows.tolist()])
            taken = [self.numbers[int(row)] for row in rows[positions]]
            views = rng(self.seed, Stream.VIEW, step).integers(self.maps.shape[1], size=len(taken))
            yield Loaded(positions, self.maps[taken, views], [])

    def embed(self, inputs: Tensor) -> Embeddings:
        return self.encoder.embed(inputs.to(self.encoder.device).float())

    def plain(self, rows: Rows) -> Iterator[tuple[Rows, Tensor]]:
        known = np.array([row for row in rows.tolist() if row in self.numbers], dtype=np.int64)
        for start in range(0, len(known), BATCH):
            some = known[start : start + BATCH]
            yield some, self.maps[[self.numbers[int(row)] for row in some], 0]


def _identity(loaded: Loaded) -> Loaded:
    return loaded


class StepBatch(NamedTuple):
    """One step: the plan of all processes, and the share that this one embeds."""

    plan: BatchPlan
    loaded: Loaded
    first: int  # position in the plan of this process's first row


@dataclass
class Batches:
    """Batches of a phase, from any step on; refills the cache of negatives when it is due."""

    recipe: Recipe
    matches: Matches
    rows: Rows
    offset: int  # of this phase among all steps
    source: Source
    group: ProcessGroup
    cache: NegativeCache | None = None

    def between(self, start: int, end: int) -> Iterator[StepBatch]:
        """Yield the batches of the steps start ... end - 1 of the phase."""
        mines = self.recipe.batch.kind == "tuples"
        every = self.recipe.mining.every if mines else end
        while start < end:
            stop = min(end, (start // every + 1) * every)
            if mines and (self.cache is None or start % every == 0):
                size, seed, step = self.recipe.mining.cache, self.recipe.seed, self.offset + start
                rows = choose_cached_rows(self.matches, self.rows, size=size, seed=seed, step=step)
                ours, means = embed_means(self.source, rows[self.group.share(len(rows))])
                gather = self.group.gather_array
                self.cache = NegativeCache(gather(ours), gather(means))
            yield from self._load(start, stop)
            start = stop

    def _load(self, start: int, end: int) -> Iterator[StepBatch]:
        batch, seed = self.recipe.batch, self.recipe.seed
        batches: BalancedBatches | TupleBatches
        if self.cache is None:
            batches = BalancedBatches(self.matches, self.rows, batch.classes, batch.images, seed)
        else:
            margin = self.recipe.loss.own_margin
            batches = TupleBatches(self.matches, self.cache, batch.tuples, batch.negatives, margin, seed)
        plans: deque[BatchPlan] = deque()  # loading runs ahead of training

        def requests() -> Iterator[LoadRequest]:
            for step in range(self.offset + start, self.offset + end):
                plan = batches.plan(step)
                plans.append(plan)
                yield step, plan.rows[self.group.share(len(plan.rows))]

        for loaded in self.source.load(requests()):
            plan = plans.popleft()
            yield StepBatch(plan, loaded, self.group.share(len(plan.rows)).start)


def augment(part: AugmentPart, pixels: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Augment each image on its own: (N, 3, H, W) uint8 to (N, 3, size, size) uint8."""
    count = len(pixels)
    grid = functional.affine_grid(_views(part, count, generator), [count, 3, size, size], align_corners=False)
    views = functional.grid_sample(
        pixels.float(), grid, mode="bilinear", padding_mode="reflection", align_corners=False
    )
    recoloured = _recolour(part, views, generator)
    return recoloured.round_().clamp_(0, 255).to(torch.uint8)


def _views(part: AugmentPart, count: int, generator: torch.Generator) -> Tensor:
    """Affine maps (N, 2, 3) of [-1, 1]^2 from views to images."""
    area = _uniform(part.scale, 1, count, generator)
    aspect = _uniform(-math.log(ASPECT), math.log(ASPECT), count, generator).exp()
    width, height = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    x = (1 - width) * _uniform(-1, 1, count, generator)
    y = (1 - height) * _uniform(-1, 1, count, generator)
    angle = math.radians(part.rotation) * _uniform(-1, 1, count, generator)
    mirror = 1 - 2 * (_uniform(0, 1, count, generator) < 0.5 * part.flip).float()
    cos, sin = angle.cos(), angle.sin()
    rows = [width * mirror * cos, -height * sin, x, width * mirror * sin, height * cos, y]
    return torch.stack(rows, dim=1).view(count, 2, 3)


def _recolour(part: AugmentPart, views: Tensor, generator: torch.Generator) -> Tensor:
    """Apply hue, saturation, brightness and contrast as one linear map of the colours."""
    count = len(views)
    brightness, contrast, saturation = (
        _uniform(1 - part.jitter, 1 + part.jitter, count, generator)[:, None, None] for _ in range(3)
    )
    turn = _turn_hue(2 * math.pi * part.hue * _uniform(-1, 1, count, generator))
    grey = torch.tensor(LUMINANCE).expand(3, 3)
    colours = brightness * (saturation * torch.eye(3) + (1 - saturation) * grey) @ turn
    mean = brightness * (views.mean((2, 3)) @ torch.tensor(LUMINANCE))[:, None, None]
    flat = torch.baddbmm((1 - contrast) * mean, contrast * colours, views.flatten(2))
    return flat.view_as(views)


def _turn_hue(angle: Tensor) -> Tensor:
    """Rotations of the colours about the grey axis, (N, 3, 3)."""
    cos, sin = angle.cos()[:, None, None], angle.sin()[:, None, None]
    axis = torch.full((3, 3), 1 / 3)
    cross = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)
    return cos * torch.eye(3) + sin * cross + (1 - cos) * axis


def _uniform(low: float, high: float, count: int, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(count, generator=generator)
