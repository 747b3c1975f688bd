"""The work behind the routes; all of it is done in threads, so that the event loop stays free."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple, TypeVar

from surefind.embeddings import Embeddings
from surefind.errors import SurefindError
from surefind.search.hits import SearchResult
from surefind.search.index import Index
from surefind.serve.asking import Answered, Ask, Encoded, Seconds
from surefind.serve.batching import Batcher
from surefind.serve.encoding import Encoding, cores, pool_of
from surefind.serve.meters import Meters
from surefind.serve.settings import Settings
from surefind.serve.shelf import Shelf, Shown

MOST_TOGETHER = 32  # questions in one search
OTHER_THREADS = 4  # for all that is neither encoded nor searched in batches

T = TypeVar("T")


class TakesNoImages(SurefindError):
    """An index of vectors that no encoder of ours made."""

    def __init__(self) -> None:
        super().__init__(
            "this index holds vectors that came from elsewhere: it has no encoder for images",
            fix="send a vector to /v1/search/vector, or ask for the neighbours of an item",
        )


class _Alike(NamedTuple):
    """What searches that are made as one have in common."""

    searched: Index
    ask: Ask


class Service:
    """An index at work; `close` answers what was asked, then ends the threads."""

    def __init__(self, index: Index, settings: Settings, meters: Meters) -> None:
        _ = index.calibration  # one that cannot be read is told now, not at the first question
        self.shelf = Shelf(index)
        self.encoding = Encoding(index.encoder, settings, meters) if index.has_model else None
        self._threads = ThreadPoolExecutor(OTHER_THREADS, thread_name_prefix="surefind-serve")
        workers = settings.workers or cores()
        self.searches: Batcher[Embeddings, SearchResult] = Batcher(
            _search,
            pool_of(workers),
            workers=workers,
            most=settings.batch or MOST_TOGETHER,
            in_turn=True,
            observe=meters.batch.labels("search").observe,
        )

    async def search(self, content: bytes, ask: Ask) -> Answered:
        shown = self.shelf.now
        encoded = await self.encode(content)
        answered = await self.search_embedding(encoded.embedding, ask, shown=shown)
        before, own = encoded.seconds, answered.seconds
        spent = replace(before, wait=before.wait + own.wait, search=own.search)
        return replace(answered, seconds=spent, picture=encoded.picture)

    async def encode(self, content: bytes) -> Encoded:
        if self.encoding is None:
            raise TakesNoImages
        return await self.encoding.encode(content)

    async def search_embedding(
        self, query: Embeddings, ask: Ask, *, shown: Shown | None = None
    ) -> Answered:
        shown = shown or self.shelf.now
        done = await self.searches.ask(query, _Alike(shown.index, ask))
        return Answered(done.answer, shown, Seconds(wait=done.waited, search=done.worked))

    async def neighbours(self, name: str, ask: Ask) -> Answered:
        """Of an image of the index, by its id."""
        shown = self.shelf.now

        def look() -> tuple[SearchResult, float]:
            begun = perf_counter()
            where = ask.where or None
            result = shown.index.neighbours(name, ask.k, ranking=ask.ranking, where=where)
            return result, perf_counter() - begun

        result, seconds = await self.in_thread(look)
        return Answered(result, shown, Seconds(search=seconds), item=name)

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        if self.encoding is not None:
            self.encoding.close()
        self.searches.close()
        self._threads.shutdown()
        self.shelf.now.index.close()


def _search(alike: _Alike, queries: list[Embeddings]) -> list[SearchResult]:
    index, ask = alike
    together = type(queries[0]).cat(queries)
    where = ask.where or None
    return index.search(together, ask.k, ranking=ask.ranking, where=where, expand=ask.expand)
