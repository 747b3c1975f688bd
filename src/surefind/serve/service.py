"""The work behind the routes, all of it in threads, so that the event loop stays free."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from threading import Lock
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.encoders.image_encoder import ImageEncoder, single_core_pool
from surefind.engines.base import EngineError
from surefind.engines.filters import Where
from surefind.errors import InvalidArgument, SurefindError
from surefind.images.decode import DecodePolicy, decode
from surefind.images.loader import Batch, usable_cores
from surefind.search.hits import SearchResult
from surefind.search.index import Index
from surefind.serve.batching import Batcher
from surefind.serve.errors import Refused
from surefind.serve.metrics import Metrics
from surefind.serve.settings import Settings

PIXELS_AT_ONCE = 4 * 224 * 224  # per core: what passes between layers should stay in its cache
MOST_TOGETHER = 32  # images in a batch, questions in one search
OTHER_THREADS = 4  # for all that is neither encoded nor searched in batches
PATH = "path"  # metadata that says where an image is on this machine

logger = logging.getLogger("surefind.serve")

T = TypeVar("T")


@dataclass(frozen=True)
class ServedVersion:
    """The version of the index that a request is answered from."""

    index: Index
    images: int
    version: int | None  # of an index in a folder; a server keeps none
    trouble: str | None = None  # why the newest version could not be taken

    @property
    def warnings(self) -> list[str]:
        return [self.without_folder(warning) for warning in self.index.warnings]

    def without_folder(self, text: str) -> str:
        """With the name of the index instead of its path, which clients must not see."""
        folder = self.index.folder
        name = folder.resolve().name
        text = text.replace(str(folder.resolve()), name)
        return text if folder.name in ("", "..") else text.replace(str(folder), name)

    def public(self, error: SurefindError | OSError) -> str:
        """What is wrong, for anybody: without the folder, and without the engine's server."""
        if isinstance(error, EngineError) and self.version is None:  # its message names the server
            return "the engine's server did not answer as it should: the log says why"
        problem = error.problem if isinstance(error, SurefindError) else str(error)
        return self.without_folder(problem)

    @classmethod
    def of(cls, index: Index) -> "ServedVersion":
        facts = index.describe()
        version = facts.get("version")
        return cls(index, facts["images"], version if isinstance(version, int) else None)


class LiveIndex:
    """A request takes `current` once and keeps to it: a swap in between disturbs nobody."""

    def __init__(self, index: Index) -> None:
        self.current = ServedVersion.of(index)
        self.reloads = 0
        self._lock = Lock()

    def reload_if_newer(self) -> bool:
        """Take a newer version if there is one; True if it was taken."""
        with self._lock:
            try:
                newer = self.current.index.newest()
                served = None if newer is None else ServedVersion.of(newer)
            except (SurefindError, OSError) as error:
                trouble = self.current.public(error)
                if trouble != self.current.trouble:
                    problem = getattr(error, "problem", error)
                    logger.warning("the newest version cannot be served: %s", problem)
                self.current = replace(self.current, trouble=trouble)
                return False
            if served is None:
                self.current = replace(self.current, trouble=None)
                return False
            self.current = served
            self.reloads += 1
        for warning in served.index.warnings:
            logger.warning("%s", warning)
        logger.info("serving %d images", served.images)
        return True


@dataclass(frozen=True)
class SearchOptions:
    """How to search; equal ones are answered together."""

    k: int = 12
    ranking: str | None = None  # the index's own unless given
    where: tuple[str, ...] = ()
    expand: int = 0

    def __post_init__(self) -> None:
        where = Where.parse(self.where)  # refused before any work
        if any(one.field == PATH for one in where.conditions):
            got = "a condition on path, which is not exposed"
            raise InvalidArgument("where", expected="conditions on other fields", got=got)


@dataclass(frozen=True)
class Seconds:
    """Where the time of an answer went."""

    decode: float = 0.0
    wait: float = 0.0  # in queues
    encode: float = 0.0
    search: float = 0.0
    total: float = 0.0


@dataclass(frozen=True)
class Answered:
    """A result, from which version of the index, and how long it took."""

    result: SearchResult
    served: ServedVersion
    seconds: Seconds
    picture: dict[str, int] | None = None  # bytes, width and height of the image that was sent
    item: str | None = None  # the id of the image that asked, where it is in the index


Encoded = tuple[Embeddings, dict[str, int], Seconds]


class Encoding:
    """Images encoded in batches, each thread on a core of its own."""

    def __init__(self, encoder: ImageEncoder, settings: Settings, metrics: Metrics) -> None:
        self.encoder, self._policy = encoder, DecodePolicy(max_bytes=settings.max_bytes)
        alone = encoder.device.type != "cpu"
        workers = 1 if alone else settings.workers or usable_cores()
        fitting = MOST_TOGETHER if alone else PIXELS_AT_ONCE // encoder.preprocessing.size**2
        self._ready = ExitStack()
        self._ready.enter_context(encoder.evaluating())
        self._decoders = ThreadPoolExecutor(usable_cores(), thread_name_prefix="surefind-decode")
        self.batches: Batcher[Tensor, Embeddings] = Batcher(
            self._encode,
            _pool(workers),
            workers=workers,
            most=settings.batch or max(1, min(fitting, MOST_TOGETHER)),
            observe=metrics.batch.labels("encode").observe,
        )

    async def encode(self, content: bytes) -> Encoded:
        """The embedding; bytes, width and height of the image; how long it took."""
        asked = perf_counter()

        def decoded() -> tuple[Tensor, dict[str, int], float, float]:
            begun = perf_counter()
            pixels = decode(content, self._policy)
            height, width = pixels.shape[1:]
            picture = {"bytes": len(content), "width": width, "height": height}
            resized = self.encoder.preprocessing.resize_image(pixels)
            return resized, picture, begun, perf_counter()

        loop = asyncio.get_running_loop()
        pixels, picture, begun, ended = await loop.run_in_executor(self._decoders, decoded)
        done = await self.batches.ask(pixels)
        wait = begun - asked + done.waited
        seconds = Seconds(decode=ended - begun, wait=wait, encode=done.worked)
        return done.answer, picture, seconds

    def close(self) -> None:
        self._decoders.shutdown()
        self.batches.close()
        self._ready.close()

    def _encode(self, kind: Any, images: list[Tensor]) -> list[Embeddings]:
        together = np.stack([image.numpy() for image in images])
        batch = Batch(torch.arange(len(images)), torch.from_numpy(together))
        embeddings = self.encoder.embed_batch(batch)
        return [embeddings[row : row + 1] for row in range(len(images))]


class Service:
    """An index at work; `close` answers what was asked, then ends the threads."""

    def __init__(self, index: Index, settings: Settings, metrics: Metrics) -> None:
        _ = index.calibration  # one that cannot be read is told now, not at the first question
        self.live = LiveIndex(index)
        self.encoding = Encoding(index.encoder, settings, metrics) if index.has_model else None
        self._threads = ThreadPoolExecutor(OTHER_THREADS, thread_name_prefix="surefind-serve")
        workers = settings.workers or usable_cores()
        self.searches: Batcher[Embeddings, SearchResult] = Batcher(
            _search,
            _pool(workers),
            workers=workers,
            most=settings.batch or MOST_TOGETHER,
            in_turn=True,
            observe=metrics.batch.labels("search").observe,
        )

    async def search(self, content: bytes, options: SearchOptions) -> Answered:
        served = self.live.current
        embedding, picture, before = await self.encode(content)
        answered = await self.search_embedding(embedding, options, served=served)
        own = answered.seconds
        spent = replace(before, wait=before.wait + own.wait, search=own.search)
        return replace(answered, seconds=spent, picture=picture)

    async def encode(self, content: bytes) -> Encoded:
        if self.encoding is None:
            raise Refused(
                409,
                "this index holds vectors that came from elsewhere: it has no encoder for images",
                fix="send a vector to /v1/search/vector, or ask for the neighbours of an item",
            )
        return await self.encoding.encode(content)

    async def search_embedding(
        self, embedding: Embeddings, options: SearchOptions, *, served: ServedVersion | None = None
    ) -> Answered:
        served = served or self.live.current
        done = await self.searches.ask(embedding, (served.index, options))
        return Answered(done.answer, served, Seconds(wait=done.waited, search=done.worked))

    async def neighbours(self, name: str, options: SearchOptions) -> Answered:
        """Of an image of the index, by its id."""
        served = self.live.current

        def look() -> Answered:
            begun = perf_counter()
            where = options.where or None
            result = served.index.neighbours(name, options.k, ranking=options.ranking, where=where)
            return Answered(result, served, Seconds(search=perf_counter() - begun), item=name)

        return await self.in_thread(look)

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        if self.encoding is not None:
            self.encoding.close()
        self.searches.close()
        self._threads.shutdown()
        self.live.current.index.close()


def _search(alike: tuple[Index, SearchOptions], queries: list[Embeddings]) -> list[SearchResult]:
    index, options = alike
    return index.search(
        type(queries[0]).cat(queries),
        options.k,
        ranking=options.ranking,
        where=options.where or None,
        expand=options.expand,
    )


def _pool(workers: int) -> ThreadPoolExecutor:
    """One thread uses all cores; of several each keeps to its own."""
    if workers == 1:
        return ThreadPoolExecutor(1, thread_name_prefix="surefind-serve")
    return single_core_pool(workers)
