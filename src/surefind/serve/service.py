"""Encode and search in batches by worker threads, so that the event loop stays free."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Condition
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from prometheus_client import Histogram
from pydantic import BaseModel, Field
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.encoders.image_encoder import single_core_pool
from surefind.engines.base import EngineError
from surefind.engines.filters import Where
from surefind.errors import InvalidArgument, SurefindError
from surefind.images.decode import DecodePolicy, decode
from surefind.images.loader import Batch, usable_cores
from surefind.search.hits import SearchResult
from surefind.search.index import Index
from surefind.serve.errors import Refused

MAX_K = 200  # hits per search
MAX_BATCH = 32  # images or queries
PATH = "path"  # metadata with the image's path on this machine; never exposed

logger = logging.getLogger("surefind.serve")

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Settings:
    """Address, access, limits and extras; checked by the command line."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free port
    token: str | None = None  # required beyond localhost
    host_names: tuple[str, ...] = ()  # allowed in the Host header
    queue: int = 64  # requests in flight; more are refused with 503
    workers: int | None = None  # encoding threads, one core each; all cores unless given
    batch: int | None = None  # images per batch; chosen for the model unless given
    max_bytes: int = 32 * 2**20  # of an uploaded image
    uploads: int = 256 * 2**20  # bytes of all concurrent uploads
    connections: int = 2000
    header_seconds: float = 10.0  # for the head of a request to arrive
    upload_seconds: float = 30.0  # for its body
    answer_seconds: float = 30.0  # for the work
    reload_seconds: float = 2.0  # between checks for a newer version of the index; 0: never
    pictures: tuple[Path, ...] = ()  # folders of thumbnails, besides those indexed
    samples: Path | None = None  # a folder of example queries
    report: Path | None = None  # a folder of `surefind evaluate`
    access_log: bool = False


@dataclass(frozen=True)
class ServedVersion:
    """A version of the index; a request uses one from start to end."""

    index: Index
    images: int
    version: int | None  # None: the engine is a database server
    reload_error: str | None = None  # why the newest version could not be loaded

    @classmethod
    def of(cls, index: Index) -> "ServedVersion":
        facts = index.describe()
        version = facts.get("version")
        return cls(index, facts["images"], version if isinstance(version, int) else None)

    @property
    def warnings(self) -> list[str]:
        return [self.without_folder(warning) for warning in self.index.warnings]

    def without_folder(self, text: str) -> str:
        """Replace the path of the index, which clients must not see, by its name."""
        folder = self.index.folder
        name = folder.resolve().name
        text = text.replace(str(folder.resolve()), name)
        return text if folder.name in ("", "..") else text.replace(str(folder), name)

    def public_message(self, error: SurefindError | OSError) -> str:
        """Return the error's message without the folder or the database server."""
        if isinstance(error, EngineError) and self.version is None:  # its message has the server
            return "the database of the index failed: see the server's log"
        problem = error.problem if isinstance(error, SurefindError) else str(error)
        return self.without_folder(problem)


class LiveIndex:
    """The served version, replaced when a newer one is found."""

    def __init__(self, index: Index) -> None:
        self.current, self.reloads = ServedVersion.of(index), 0

    def reload_if_newer(self) -> None:
        """Load a newer version if there is one. Not for two threads at a time."""
        try:
            newer = self.current.index.newest()
            served = replace(self.current, reload_error=None) if newer is None else ServedVersion.of(newer)
        except (SurefindError, OSError) as error:
            message = self.current.public_message(error)
            if message != self.current.reload_error:
                logger.warning("the newest version cannot be served: %s", getattr(error, "problem", error))
            self.current = replace(self.current, reload_error=message)
            return
        self.current = served
        if newer is not None:
            self.reloads += 1
            for warning in newer.warnings:
                logger.warning("%s", warning)
            logger.info("serving %d images", served.images)


class NeighbourOptions(BaseModel, frozen=True):
    """Options of a search, as in the URL."""

    k: int = Field(12, ge=1, le=MAX_K, description="Number of hits.")
    ranking: str | None = Field(None, description="confidence (default if calibrated), mean or expected.")
    where: tuple[str, ...] | None = Field(None, max_length=16, description="Filters: label=cat, year>=2020, var<0.1.")

    def model_post_init(self, _: object) -> None:
        try:
            conditions = Where.parse(self.where or ()).conditions
        except InvalidArgument as error:  # pydantic would reword it
            raise Refused(400, error.problem, fix=error.fix) from None
        if any(one.field == PATH for one in conditions):
            raise Refused(400, "where: `path` is not exposed", fix="filter by another field")


class SearchOptions(NeighbourOptions, frozen=True):
    """Queries with equal options are searched in one batch."""

    expand: int = Field(0, ge=0, le=50, description="Neighbours for query expansion.")


@dataclass(frozen=True)
class TimedResult:
    """A search result, the version of the index it came from, and its timings."""

    result: SearchResult
    served: ServedVersion
    seconds: dict[str, float]  # of decode, wait (in queues), encode and search
    query: dict[str, Any]  # bytes, width and height of an image, or the id of an indexed one


class _Queued(NamedTuple):
    item: Any
    key: Hashable
    since: float
    future: "asyncio.Future[tuple[Any, float, float]]"


class Batcher(Generic[Item, Result]):
    """Queue of items that worker threads process in batches.

    No item waits for a batch to fill: a free thread takes its share of the queue, so a single
    item is processed at once, and batches grow with the load. Only items with equal keys share a
    batch; `work` gets the key and the items. With `in_turn`, each key has at most one batch at a
    time, for work where a batch costs little more than one item.
    """

    def __init__(
        self,
        work: Callable[[Any, list[Item]], Sequence[Result]],
        *,
        workers: int,
        most: int,
        in_turn: bool = False,
        observe: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._work, self._observe = work, observe
        self._workers, self._most, self._in_turn = workers, most, in_turn
        self._busy: set[Hashable] = set()  # keys in work, with `in_turn`
        self._queue: deque[_Queued] = deque()
        self._changed = Condition()
        self._closed = False
        # One thread uses all cores; of several, each uses one.
        self._pool = ThreadPoolExecutor(1) if workers == 1 else single_core_pool(workers)
        for _ in range(workers):
            self._pool.submit(self._run)

    def __len__(self) -> int:
        """Number of queued items."""
        return len(self._queue)

    async def submit(self, item: Item, key: Hashable = None) -> tuple[Result, float, float]:
        """Return the result, the seconds in the queue and those of the batch.

        If cancelled before a thread takes the item, no work is done.
        """
        future: asyncio.Future[tuple[Result, float, float]] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the service is stopping")
            self._queue.append(_Queued(item, key, perf_counter(), future))
            self._changed.notify()
        return await future

    def close(self) -> None:
        """Finish the queue and stop the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._pool.shutdown()

    def _run(self) -> None:
        while batch := self._take():
            begun, key = perf_counter(), batch[0].key
            try:
                results: Sequence[Any] = self._work(key, [one.item for one in batch])
            except Exception as error:  # noqa: BLE001 - raised to the callers
                results = [error] * len(batch)
            worked = perf_counter() - begun
            if self._in_turn:
                with self._changed:
                    self._busy.discard(key)
                    self._changed.notify()
            self._observe(len(batch))
            loop = batch[0].future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, batch, results, begun, worked)

    def _take(self) -> list[_Queued]:
        """Wait for a batch; empty once closed and done."""
        with self._changed:
            while True:
                if taken := self._share():
                    return taken
                if self._closed and not self._queue:
                    return []
                self._changed.wait()

    def _share(self) -> list[_Queued]:
        among = 1 if self._in_turn else self._workers
        share = min(self._most, math.ceil(len(self._queue) / among))
        taken, left = list[_Queued](), deque[_Queued]()
        while self._queue and len(taken) < share:
            one = self._queue.popleft()
            if one.future.cancelled():
                continue
            if one.key == taken[0].key if taken else one.key not in self._busy:
                taken.append(one)
            else:
                left.append(one)
        self._queue.extendleft(reversed(left))
        if taken and self._in_turn:
            self._busy.add(taken[0].key)
        return taken


def _resolve(batch: list[_Queued], results: Sequence[Any], begun: float, worked: float) -> None:
    for one, result in zip(batch, results, strict=True):
        if one.future.done():
            continue
        if isinstance(result, Exception):
            one.future.set_exception(result)
        else:
            one.future.set_result((result, begun - one.since, worked))


class Service:
    """Encoding and searching of a live index; `close` finishes submitted work."""

    def __init__(self, index: Index, settings: Settings, batch_sizes: Histogram) -> None:
        _ = index.calibration  # fail now if it cannot be read
        self.live, self._policy = LiveIndex(index), DecodePolicy(max_bytes=settings.max_bytes)
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="surefind-serve")  # for work outside the batches
        self._decoders = ThreadPoolExecutor(usable_cores(), thread_name_prefix="surefind-decode")
        self._evaluating = ExitStack()
        workers = settings.workers or usable_cores()
        self.searches: Batcher[Embeddings, SearchResult] = Batcher(
            _search,
            workers=workers,
            most=settings.batch or MAX_BATCH,
            in_turn=True,
            observe=batch_sizes.labels("search").observe,
        )
        self.images: Batcher[Tensor, Embeddings] | None = None  # of an index with an encoder
        if index.has_model:
            self._evaluating.enter_context(index.encoder.evaluating())
            self._encoder = encoder = index.encoder.for_many()
            self.images = Batcher(
                self._embed,
                workers=workers if encoder.device.type == "cpu" else 1,
                most=settings.batch or min(encoder.largest_batch, MAX_BATCH),
                observe=batch_sizes.labels("encode").observe,
            )

    async def search(self, content: bytes, options: SearchOptions) -> TimedResult:
        served = self.live.current
        embedding, image, seconds = await self.encode(content)
        found = await self.search_embedding(embedding, options, served=served)
        seconds |= found.seconds | {"wait": seconds["wait"] + found.seconds["wait"]}
        return replace(found, seconds=seconds, query=image)

    async def encode(self, content: bytes) -> tuple[Embeddings, dict[str, int], dict[str, float]]:
        """Return the embedding, the bytes, width and height of the image, and the timings."""
        if self.images is None:
            problem = "this index holds vectors of another model: it has no encoder for images"
            raise Refused(409, problem, fix="send a vector to /v1/search/vector, or request the neighbours of an item")
        submitted = perf_counter()

        def decode_image() -> tuple[Tensor, dict[str, int], float, float]:
            begun = perf_counter()
            pixels = decode(content, self._policy)
            height, width = pixels.shape[1:]
            image = {"bytes": len(content), "width": width, "height": height}
            return self._encoder.resize(pixels), image, begun, perf_counter()

        loop = asyncio.get_running_loop()
        pixels, image, begun, ended = await loop.run_in_executor(self._decoders, decode_image)
        embedding, waited, worked = await self.images.submit(pixels)
        return embedding, image, {"decode": ended - begun, "wait": begun - submitted + waited, "encode": worked}

    async def search_embedding(
        self, embedding: Embeddings, options: SearchOptions, *, served: ServedVersion | None = None
    ) -> TimedResult:
        served = served or self.live.current
        result, waited, worked = await self.searches.submit(embedding, (served.index, options))
        return TimedResult(result, served, {"wait": waited, "search": worked}, {})

    async def neighbours(self, name: str, options: NeighbourOptions) -> TimedResult:
        """Search with an indexed image, by its id."""
        served = self.live.current

        def find() -> TimedResult:
            begun = perf_counter()
            result = served.index.neighbours(name, **dict(options))
            return TimedResult(result, served, {"search": perf_counter() - begun}, {"id": name})

        return await self.in_thread(find)

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        self._decoders.shutdown()
        if self.images is not None:
            self.images.close()
        self._evaluating.close()
        self.searches.close()
        self._threads.shutdown()
        self.live.current.index.close()

    def _embed(self, key: Any, images: list[Tensor]) -> list[Embeddings]:
        embeddings = self._encoder.embed_batch(Batch(torch.arange(len(images)), images))
        return [embeddings[row : row + 1] for row in range(len(images))]


def _search(key: tuple[Index, SearchOptions], queries: list[Embeddings]) -> list[SearchResult]:
    index, options = key
    return index.search(type(queries[0]).cat(queries), **dict(options))
