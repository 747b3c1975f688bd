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
from threading import Condition, Lock
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from prometheus_client import Histogram
from pydantic import BaseModel, Field
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
from surefind.serve.errors import Refused

MAX_K = 200  # hits per search
MAX_EXPAND = 50
MAX_BATCH = 32  # images or queries
OTHER_THREADS = 4  # for work outside the batches
PATH = "path"  # metadata with the image's path on this machine; never exposed

logger = logging.getLogger("surefind.serve")

T = TypeVar("T")
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
        self.current = ServedVersion.of(index)
        self.reloads = 0
        self._lock = Lock()

    def reload_if_newer(self) -> bool:
        """Load a newer version if there is one; return whether it was loaded."""
        with self._lock:
            try:
                newer = self.current.index.newest()
                served = None if newer is None else ServedVersion.of(newer)
            except (SurefindError, OSError) as error:
                message = self.current.public_message(error)
                if message != self.current.reload_error:
                    problem = getattr(error, "problem", error)
                    logger.warning("the newest version cannot be served: %s", problem)
                self.current = replace(self.current, reload_error=message)
                return False
            if served is None:
                self.current = replace(self.current, reload_error=None)
                return False
            self.current = served
            self.reloads += 1
        for warning in served.index.warnings:
            logger.warning("%s", warning)
        logger.info("serving %d images", served.images)
        return True


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

    expand: int = Field(0, ge=0, le=MAX_EXPAND, description="Neighbours for query expansion.")


@dataclass(frozen=True)
class Timings:
    """Seconds of each stage of a search."""

    decode: float = 0.0
    wait: float = 0.0  # in queues
    encode: float = 0.0
    search: float = 0.0
    total: float = 0.0


@dataclass(frozen=True)
class TimedResult:
    """A search result, the version of the index it came from, and its timings."""

    result: SearchResult
    served: ServedVersion
    seconds: Timings
    query: dict[str, Any]  # bytes, width and height of an image, or the id of an indexed one


class BatchResult(NamedTuple, Generic[Result]):
    """The result of one item, and its timings."""

    result: Result
    waited: float  # seconds in the queue
    worked: float  # seconds of its batch


class _Queued(NamedTuple):
    item: Any
    key: Hashable
    since: float
    future: "asyncio.Future[BatchResult[Any]]"


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
        pool: ThreadPoolExecutor,
        *,
        workers: int,
        most: int,
        in_turn: bool = False,
        observe: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._work, self._pool, self._observe = work, pool, observe
        self._workers, self._most, self._in_turn = workers, most, in_turn
        self._busy: set[Hashable] = set()  # keys in work, with `in_turn`
        self._queue: deque[_Queued] = deque()
        self._changed = Condition()
        self._closed = False
        for _ in range(workers):
            pool.submit(self._run)

    def __len__(self) -> int:
        """Number of queued items."""
        return len(self._queue)

    async def submit(self, item: Item, key: Hashable = None) -> BatchResult[Result]:
        """Process an item; if cancelled before a thread takes it, no work is done."""
        future: asyncio.Future[BatchResult[Result]] = asyncio.get_running_loop().create_future()
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
            done = [(one.future, result, begun - one.since) for one, result in zip(batch, results, strict=True)]
            loop = batch[0].future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, done, worked)

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


def _resolve(done: list[tuple["asyncio.Future[Any]", Any, float]], worked: float) -> None:
    for future, result, waited in done:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(BatchResult(result, waited, worked))


Encoded = tuple[Embeddings, dict[str, int], Timings]


class EncoderPool:
    """Encode images in batches, each thread on its own core."""

    def __init__(self, encoder: ImageEncoder, settings: Settings, batch_sizes: Histogram) -> None:
        self.encoder, self._policy = encoder, DecodePolicy(max_bytes=settings.max_bytes)
        on_gpu = encoder.device.type != "cpu"
        workers = 1 if on_gpu else settings.workers or usable_cores()
        self._evaluating = ExitStack()
        self._evaluating.enter_context(encoder.evaluating())
        self._decoders = ThreadPoolExecutor(usable_cores(), thread_name_prefix="surefind-decode")
        self.batches: Batcher[Tensor, Embeddings] = Batcher(
            self._encode,
            _pool(workers),
            workers=workers,
            most=settings.batch or min(encoder.largest_batch, MAX_BATCH),
            observe=batch_sizes.labels("encode").observe,
        )

    async def encode(self, content: bytes) -> Encoded:
        """Return the embedding, the bytes, width and height of the image, and the timings."""
        submitted = perf_counter()

        def decode_image() -> tuple[Tensor, dict[str, int], float, float]:
            begun = perf_counter()
            pixels = decode(content, self._policy)
            height, width = pixels.shape[1:]
            image = {"bytes": len(content), "width": width, "height": height}
            return self.encoder.resize(pixels), image, begun, perf_counter()

        loop = asyncio.get_running_loop()
        pixels, image, begun, ended = await loop.run_in_executor(self._decoders, decode_image)
        done = await self.batches.submit(pixels)
        wait = begun - submitted + done.waited
        return done.result, image, Timings(decode=ended - begun, wait=wait, encode=done.worked)

    def close(self) -> None:
        self._decoders.shutdown()
        self.batches.close()
        self._evaluating.close()

    def _encode(self, key: Any, images: list[Tensor]) -> list[Embeddings]:
        embeddings = self.encoder.embed_batch(Batch(torch.arange(len(images)), images))
        return [embeddings[row : row + 1] for row in range(len(images))]


class Service:
    """Encoding and searching of a live index; `close` finishes submitted work."""

    def __init__(self, index: Index, settings: Settings, batch_sizes: Histogram) -> None:
        _ = index.calibration  # fail now if it cannot be read
        self.live = LiveIndex(index)
        self.encoder = EncoderPool(index.encoder, settings, batch_sizes) if index.has_model else None
        self._threads = ThreadPoolExecutor(OTHER_THREADS, thread_name_prefix="surefind-serve")
        workers = settings.workers or usable_cores()
        self.searches: Batcher[Embeddings, SearchResult] = Batcher(
            _search,
            _pool(workers),
            workers=workers,
            most=settings.batch or MAX_BATCH,
            in_turn=True,
            observe=batch_sizes.labels("search").observe,
        )

    async def search(self, content: bytes, options: SearchOptions) -> TimedResult:
        served = self.live.current
        embedding, image, before = await self.encode(content)
        found = await self.search_embedding(embedding, options, served=served)
        after = found.seconds
        seconds = replace(before, wait=before.wait + after.wait, search=after.search)
        return replace(found, seconds=seconds, query=image)

    async def encode(self, content: bytes) -> Encoded:
        if self.encoder is None:
            raise Refused(
                409,
                "this index holds vectors of another model: it has no encoder for images",
                fix="send a vector to /v1/search/vector, or request the neighbours of an item",
            )
        return await self.encoder.encode(content)

    async def search_embedding(
        self, embedding: Embeddings, options: SearchOptions, *, served: ServedVersion | None = None
    ) -> TimedResult:
        served = served or self.live.current
        done = await self.searches.submit(embedding, (served.index, options))
        return TimedResult(done.result, served, Timings(wait=done.waited, search=done.worked), {})

    async def neighbours(self, name: str, options: NeighbourOptions) -> TimedResult:
        """Search with an indexed image, by its id."""
        served = self.live.current

        def find() -> TimedResult:
            begun = perf_counter()
            result = served.index.neighbours(name, **dict(options))
            return TimedResult(result, served, Timings(search=perf_counter() - begun), {"id": name})

        return await self.in_thread(find)

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        if self.encoder is not None:
            self.encoder.close()
        self.searches.close()
        self._threads.shutdown()
        self.live.current.index.close()


def _search(key: tuple[Index, SearchOptions], queries: list[Embeddings]) -> list[SearchResult]:
    index, options = key
    return index.search(type(queries[0]).cat(queries), **dict(options))


def _pool(workers: int) -> ThreadPoolExecutor:
    """One thread uses all cores; of several, each uses one."""
    if workers == 1:
        return ThreadPoolExecutor(1, thread_name_prefix="surefind-serve")
    return single_core_pool(workers)
