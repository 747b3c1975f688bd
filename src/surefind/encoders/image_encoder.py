"""ImageEncoder: embed many images, on all cores; bad images are reported."""

import math
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from threading import Barrier
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from surefind.embeddings import Embeddings
from surefind.encoders.config import EncoderConfig
from surefind.images.decode import TABLES, ImageRejected, ImageSource
from surefind.images.loader import Batch, Loader, Rejection, TooManyRejected
from surefind.images.preprocess import Preprocessing

_PIXELS_AT_ONCE = 4 * 224 * 224  # per core: activations should stay in its cache
_THREAD_START_SECONDS = 60
_AT_A_TIME = 1024  # images of a generator in memory
_MANY = 64  # images, from which on preparing the network pays off

Images = ImageSource | Iterable[ImageSource] | Any  # Any: a table in memory


def list_images(images: Images) -> Iterable[ImageSource]:
    """Return the images one by one, whatever they are given as."""
    if hasattr(images, "columns") or (
        isinstance(images, str | Path) and (Path(images).suffix.lower() in TABLES or Path(images).is_dir())
    ):
        from surefind.datasets import read_catalog

        return read_catalog(images).files
    if isinstance(images, np.ndarray | Tensor) and images.ndim == 4:
        return list(images)
    if isinstance(images, str | Path | bytes | Image.Image | np.ndarray | Tensor):
        return [images]
    return images


class EncodedImages(NamedTuple):
    """Embeddings of the images that could be read, and the images that could not."""

    embeddings: Embeddings  # on the CPU
    rows: Tensor  # image of each embedding, (n,) int64
    rejected: list[Rejection]  # with the reasons


class ImageEncoder(ABC):
    """Base class of encoders."""

    config: EncoderConfig
    preprocessing: Preprocessing
    runtime: ClassVar[str] = "torch"  # with equal fingerprints, embeddings may differ by rounding
    trained_with: frozenset[str] = frozenset()  # hashes of the training classes, if known

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Device of the network."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash, equal for two encoders only if their embeddings are comparable."""

    @property
    def has_variance(self) -> bool:
        """False if the variance is a constant."""
        return self.config.has_variance

    @property
    def cores(self) -> int:
        """Batches to embed at a time: each core has its own, twice as fast as sharing one."""
        return torch.get_num_threads() if self.device.type == "cpu" else 1

    @property
    def largest_batch(self) -> int:
        """Images in a batch, at most."""
        if self.device.type != "cpu":
            return sys.maxsize
        return max(1, _PIXELS_AT_ONCE // self.preprocessing.size**2)

    @abstractmethod
    def embed_pixels(self, pixels: Tensor) -> Embeddings:
        """Embed normalised pixels (N, 3, S, S)."""

    def empty(self) -> Embeddings:
        """Embeddings of no image."""
        return self.config.distributions(torch.empty(0, self.config.dim), torch.empty(0))

    @abstractmethod
    def evaluating(self) -> AbstractContextManager[None]:
        """Context of evaluation mode; the former modes are restored."""

    def for_many(self) -> Self:
        """Return an encoder in evaluation mode that embeds many images faster, alike but for rounding."""
        return self

    @property
    def resize(self) -> Callable[[Tensor], Tensor]:
        """What resizes an image, uint8 (3, H, W)."""
        return self.preprocessing.resize_image

    def prepare(self, pixels: Tensor) -> Tensor:
        """Normalise uint8 (N, 3, S, S), on the device of the network."""
        return self.preprocessing.normalise(pixels.to(self.device))

    def encode(self, images: Images, *, batch_size: int = 64, workers: int | None = None) -> Embeddings:
        """Embed images, in order.

        Args:
            images: one image, a sequence or a generator of images: paths, bytes, Pillow images,
                arrays (H, W, 3), tensors (3, H, W), of bytes or of floats from 0 to 1; an array
                (N, H, W, 3) or tensor (N, 3, H, W); a folder, a table (.csv, .parquet), or a
                DataFrame with a column `path`.
            batch_size: images embedded at once, at most.
            workers: threads that decode; by default one per core.

        Returns:
            One embedding per image, on the CPU.

        Raises:
            ImageRejected: for the first image that cannot be read.
        """
        sources, parts, first = iter(list_images(images)), [self.empty()], 0
        while some := list(islice(sources, _AT_A_TIME)):  # of a generator
            try:
                encoded = self.encode_all(some, batch_size=batch_size, workers=workers, max_bad_share=0.0)
            except TooManyRejected as error:
                row, path, reason = error.rejected[0]
                raise ImageRejected(reason, source=f"{path} (row {first + row})") from None
            parts.append(encoded.embeddings)
            first += len(some)
        return type(parts[0]).cat(parts)

    def encode_all(
        self,
        images: Images,
        *,
        batch_size: int = 64,
        workers: int | None = None,
        max_bad_share: float = 0.05,
        progress: Callable[[int], None] | None = None,
    ) -> EncodedImages:
        """Embed all images that can be read; skip and report the others.

        Args:
            images: as for `encode`.
            batch_size: images embedded at once, at most.
            workers: threads that decode; by default one per core.
            max_bad_share: share of images that may be unreadable.
            progress: called with the number of images done.

        Raises:
            TooManyRejected: if more than `max_bad_share` of the images cannot be read.
        """
        sources, cores = list(list_images(images)), self.cores
        share = max(1, math.ceil(len(sources) / cores))
        loader = Loader(
            sources,
            self.resize,
            batch_size=min(batch_size, self.largest_batch, share),
            workers=workers,
            prefetch=2 * cores,
            max_bad_share=max_bad_share,
        )
        rows, parts = [torch.empty(0, dtype=torch.int64)], list[Embeddings]()
        with self.evaluating():
            prepare = self.for_many if len(sources) >= _MANY else lambda: self
            if cores > 1 and len(sources) > 1:
                results = on_cores(cores, loader, prepare)
            else:
                encoder = prepare()
                results = ((batch, encoder.embed_batch(batch)) for batch in loader)
            for batch, part in results:
                rows.append(batch.rows)
                parts.append(part)
                if progress is not None:
                    progress(int(batch.rows[-1]) + 1)
        parts = parts or [self.empty()]
        return EncodedImages(type(parts[0]).cat(parts), torch.cat(rows), loader.rejected)

    def embed_batch(self, batch: Batch) -> Embeddings:
        with torch.inference_mode():
            return self.embed_pixels(self.prepare(batch.pixels)).to("cpu")


def on_cores(
    cores: int, batches: Iterable[Batch], prepare: Callable[[], ImageEncoder]
) -> Iterator[tuple[Batch, Embeddings]]:
    """Embed `cores` batches at a time; yield results in order. `prepare` makes the encoder, on one core."""
    running: deque[tuple[Batch, Future[Embeddings]]] = deque()
    with single_core_pool(cores) as pool:
        try:
            encoder = pool.submit(prepare)  # while the first images are decoded
            for batch in batches:
                running.append((batch, pool.submit(lambda its: encoder.result().embed_batch(its), batch)))
                if len(running) > cores:
                    done, result = running.popleft()
                    yield done, result.result()
            for done, result in running:
                yield done, result.result()
        finally:  # also when a batch fails
            pool.shutdown(cancel_futures=True)


def single_core_pool(workers: int) -> ThreadPoolExecutor:
    """Thread pool in which torch uses one thread per operation.

    A new thread starts from the latest setting of any thread: so all workers set theirs first,
    then the caller repeats its own.
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="surefind-encode")
    ready = Barrier(workers + 1, timeout=_THREAD_START_SECONDS)

    def use_one_thread() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # adopts the setting for this thread
        ready.wait()

    own = torch.get_num_threads()
    for _ in range(workers):
        pool.submit(use_one_thread)
    ready.wait()
    torch.set_num_threads(own)
    return pool


@contextmanager
def evaluating(module: nn.Module, *, but: Collection[nn.Module] = ()) -> Iterator[None]:
    """Set evaluation mode, except for the modules `but`; restore all modes afterwards."""
    before = [(part, part.training) for part in module.modules()]
    try:
        for part, _ in before:
            part.training = part in but
        yield
    finally:
        for part, mode in before:
            part.training = mode
