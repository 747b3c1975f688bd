"""Images to embeddings: decoded ahead, embedded on every core, bad ones reported."""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Barrier
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from surefind.embeddings import Embeddings
from surefind.images.decode import ImageRejected, ImageSource
from surefind.images.loader import Batch, Loader, Rejection, TooManyRejected
from surefind.images.preprocess import Preprocessing

_PIXELS_AT_ONCE = 4 * 224 * 224  # per core: what passes between layers should stay in its cache

_THREAD_START_SECONDS = 60


class EncodedImages(NamedTuple):
    """The images that could be read, as embeddings, and those that could not."""

    embeddings: Embeddings
    rows: Tensor  # (n,) int64, which of the images each embedding is
    rejected: list[Rejection]


class ImageEncoder(ABC):
    """Base class: encode images, a few or very many; use `Encoder`."""

    preprocessing: Preprocessing
    runtime: ClassVar[str] = "torch"  # what embeds: equal fingerprints may differ by rounding
    trained_with: frozenset[str] = frozenset()  # codes of classes, as far as they are known

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where pixels are embedded."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Equal for two encoders only if their embeddings can be compared."""

    @property
    @abstractmethod
    def has_variance(self) -> bool:
        """False if the variance is a constant that says nothing about the image."""

    @abstractmethod
    def embed_pixels(self, pixels: Tensor) -> Embeddings:
        """Embeddings of normalised pixels (N, 3, S, S)."""

    @abstractmethod
    def empty(self) -> Embeddings:
        """Embeddings of no image."""

    @abstractmethod
    def evaluating(self) -> AbstractContextManager[None]:
        """Ready to embed inside, as before afterwards."""

    def prepare(self, pixels: Tensor) -> Tensor:
        """uint8 (N, 3, S, S) to normalised pixels, where they are embedded."""
        return self.preprocessing.normalise(pixels.to(self.device))

    def encode(
        self,
        images: Sequence[ImageSource] | ImageSource,
        *,
        batch_size: int = 64,
        workers: int | None = None,
    ) -> Embeddings:
        """One embedding per image, in order; the first that cannot be read raises ImageRejected.

        At most `batch_size` images are embedded at once; `workers` threads decode.
        """
        if isinstance(images, str | Path | bytes | Image.Image | np.ndarray | Tensor):
            images = [images]
        try:
            encoded = self.encode_all(
                images, batch_size=batch_size, workers=workers, max_bad_share=0.0
            )
        except TooManyRejected as error:
            row, path, reason = error.rejected[0]
            raise ImageRejected(reason, source=f"{path} (row {row})") from None
        return encoded.embeddings

    def encode_all(
        self,
        images: Sequence[ImageSource],
        *,
        batch_size: int = 64,
        workers: int | None = None,
        max_bad_share: float = 0.05,
        progress: Callable[[int], None] | None = None,
    ) -> EncodedImages:
        """Every image that can be read; bad ones are skipped and reported, up to a share.

        The embeddings are on the CPU. `progress` is told how many images are done.

        On a CPU each core embeds a few images of its own: that measures about twice as fast as
        all cores sharing the layers of one large batch, and decoding beside it costs less.
        """
        on_cpu = self.device.type == "cpu"
        cores = torch.get_num_threads() if on_cpu else 1
        if on_cpu:
            fitting = max(1, _PIXELS_AT_ONCE // self.preprocessing.size**2)
            batch_size = min(batch_size, fitting, max(1, math.ceil(len(images) / cores)))
        loader = Loader(
            images,
            self.preprocessing,
            batch_size=batch_size,
            workers=workers,
            prefetch=2 * cores,
            max_bad_share=max_bad_share,
        )
        rows, parts = [torch.empty(0, dtype=torch.int64)], [self.empty()]
        with self.evaluating():
            if cores > 1 and len(images) > 1:
                results = on_cores(cores, loader, self.embed_batch)
            else:
                results = ((batch, self.embed_batch(batch)) for batch in loader)
            for batch, part in results:
                rows.append(batch.rows)
                parts.append(part)
                if progress is not None:
                    progress(int(batch.rows[-1]) + 1)
        return EncodedImages(type(parts[0]).cat(parts), torch.cat(rows), loader.rejected)

    def embed_batch(self, batch: Batch) -> Embeddings:
        with torch.inference_mode():
            return self.embed_pixels(self.prepare(batch.pixels)).to("cpu")


def on_cores(
    cores: int, batches: Iterable[Batch], embed: Callable[[Batch], Embeddings]
) -> Iterator[tuple[Batch, Embeddings]]:
    """Results in the order of the batches, of which `cores` are worked on at a time."""
    running: deque[tuple[Batch, Future[Embeddings]]] = deque()
    with single_core_pool(cores) as pool:
        try:
            for batch in batches:
                running.append((batch, pool.submit(embed, batch)))
                if len(running) > cores:
                    done, result = running.popleft()
                    yield done, result.result()
            for done, result in running:
                yield done, result.result()
        finally:  # also when a batch fails
            pool.shutdown(cancel_futures=True)


def single_core_pool(workers: int) -> ThreadPoolExecutor:
    """A pool in which an operation of torch uses no further threads.

    torch keeps that setting per thread, but a new thread anywhere starts from the last one made:
    so all workers make theirs first, and then the caller repeats its own.
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="surefind-encode")
    ready = Barrier(workers + 1, timeout=_THREAD_START_SECONDS)

    def keep_to_one_core() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # a thread adopts the latest setting of all when it first asks
        ready.wait()

    own = torch.get_num_threads()
    for _ in range(workers):
        pool.submit(keep_to_one_core)
    ready.wait()
    torch.set_num_threads(own)
    return pool


@contextmanager
def evaluating(module: nn.Module, *, but: Collection[nn.Module] = ()) -> Iterator[None]:
    """Evaluation mode inside, except for the modules `but`; every mode is restored afterwards."""
    before = [(part, part.training) for part in module.modules()]
    try:
        for part, _ in before:
            part.training = part in but
        yield
    finally:
        for part, mode in before:
            part.training = mode
