"""Images encoded in batches, each thread on a core of its own."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.encoders.encoding import ImageEncoder
from surefind.encoders.threads import single_core_pool
from surefind.images.decode import DecodePolicy, decode
from surefind.images.loading import Batch
from surefind.serve.asking import Encoded, Picture, Seconds
from surefind.serve.batching import Batcher
from surefind.serve.meters import Meters
from surefind.serve.settings import Settings

PIXELS_AT_ONCE = 4 * 224 * 224  # per core: what passes between layers should stay in its cache
MOST_TOGETHER = 32  # images of a batch, however small


class _Decoded(NamedTuple):
    pixels: Tensor  # as the encoder wants them
    picture: Picture
    begun: float
    ended: float


class Encoding:
    """From the bytes of an image to its embedding."""

    def __init__(self, encoder: ImageEncoder, settings: Settings, meters: Meters) -> None:
        self.encoder, self._policy = encoder, DecodePolicy(max_bytes=settings.max_bytes)
        alone = not encoder.parallel or encoder.device.type != "cpu"
        workers = 1 if alone else settings.workers or cores()
        fitting = MOST_TOGETHER if alone else PIXELS_AT_ONCE // encoder.preprocessing.size**2
        self._ready = ExitStack()
        self._ready.enter_context(encoder.evaluating())
        self._decoders = ThreadPoolExecutor(cores(), thread_name_prefix="surefind-decode")
        self.batches: Batcher[Tensor, Embeddings] = Batcher(
            self._encode,
            pool_of(workers),
            workers=workers,
            most=settings.batch or max(1, min(fitting, MOST_TOGETHER)),
            observe=meters.batch.labels("encode").observe,
        )

    async def encode(self, content: bytes) -> Encoded:
        asked = perf_counter()
        loop = asyncio.get_running_loop()
        decoded = await loop.run_in_executor(self._decoders, self._decode, content)
        done = await self.batches.ask(decoded.pixels)
        seconds = Seconds(
            decode=decoded.ended - decoded.begun,
            wait=decoded.begun - asked + done.waited,
            encode=done.worked,
        )
        return Encoded(done.answer, decoded.picture, seconds)

    def close(self) -> None:
        self._decoders.shutdown()
        self.batches.close()
        self._ready.close()

    def _decode(self, content: bytes) -> _Decoded:
        begun = perf_counter()
        pixels = decode(content, self._policy)
        height, width = pixels.shape[1:]
        resized = self.encoder.preprocessing.resize_image(pixels)
        return _Decoded(resized, Picture(len(content), width, height), begun, perf_counter())

    def _encode(self, kind: Any, images: list[Tensor]) -> list[Embeddings]:
        together = np.stack([image.numpy() for image in images])
        batch = Batch(torch.arange(len(images)), torch.from_numpy(together))
        embeddings = self.encoder.embed_batch(batch)
        return [embeddings[row : row + 1] for row in range(len(images))]


def pool_of(workers: int) -> ThreadPoolExecutor:
    """One thread uses all cores; of several each keeps to its own."""
    if workers == 1:
        return ThreadPoolExecutor(1, thread_name_prefix="surefind-serve")
    return single_core_pool(workers)


def cores() -> int:
    """Fewer than the machine has, in a container."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
