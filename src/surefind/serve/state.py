"""State shared by all routes: index, metrics, limits on requests and uploads, caches."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.requests import ClientDisconnect, Request

from surefind.embeddings import Gaussians
from surefind.engines.base import Rows
from surefind.errors import InvalidFile
from surefind.reports.result import PAGE
from surefind.search.folder import read_picture
from surefind.search.index import Index
from surefind.serve import gallery
from surefind.serve.errors import RETRY, Refused
from surefind.serve.security import known_hosts
from surefind.serve.service import ServedVersion, Service, Settings
from surefind.vectors.reader import Values, as_points
from surefind.vectors.upgrade import Upgrade

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)  # buckets
SIZES = (1, 2, 4, 8, 16, 32, 64)  # buckets

logger = logging.getLogger("surefind.serve")


class Metrics:
    """Metrics of one app, in a registry of its own."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter("surefind_requests", "Responses.", ["route", "method", "status"], registry=own)
        self.seconds = Histogram("surefind_stage_seconds", "Time per stage.", ["stage"], buckets=SECONDS, registry=own)
        self.verdicts = Counter("surefind_verdicts", "Searches; none: no confidence.", ["verdict"], registry=own)
        self.rejected = Counter("surefind_rejected_requests", "Refused requests.", ["reason"], registry=own)
        self.batch = Histogram("surefind_batch_size", "Requests per batch.", ["stage"], buckets=SIZES, registry=own)
        self.queue = Gauge("surefind_queue", "Queued requests.", ["stage"], registry=own)
        self.in_flight = Gauge("surefind_in_flight_requests", "In work.", registry=own)
        self.images = Gauge("surefind_index_images", "Images in the index.", registry=own)
        self.reloads = Gauge("surefind_index_reloads", "Newer versions loaded.", registry=own)


class Admission:
    """Limit on requests in flight. Used by the event loop only, so it needs no lock."""

    def __init__(self, limit: int) -> None:
        self.limit, self.in_flight = limit, 0

    def check(self) -> None:
        """Raise Refused if the limit is reached, before the body of a request is read."""
        if self.in_flight >= self.limit:
            raise Refused(503, f"all {self.limit} request slots are in use", fix=RETRY)

    @contextmanager
    def slot(self) -> Iterator[None]:
        self.check()
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1


class UploadBudget:
    """Limit on the bytes of all uploads together. Used by the event loop only."""

    def __init__(self, total_bytes: int, seconds: float) -> None:
        self.total_bytes, self.seconds, self.held = total_bytes, seconds, 0

    @asynccontextmanager
    async def read(self, request: Request, *, most: int) -> AsyncIterator[bytes]:
        """Read a body of at most `most` bytes; its bytes count until the context ends."""
        fix = "send a smaller file, e.g. a JPEG"
        too_long = Refused(413, f"the body is longer than {most:,} bytes", fix=fix)
        # Before `100 Continue` is sent. The server has refused lengths that are not numbers.
        if int(request.headers.get("content-length", 0)) > most:
            raise too_long
        body, more = bytearray(), True  # a list of tiny pieces would need 20 times the memory
        try:
            try:
                async with asyncio.timeout(self.seconds):
                    while more:
                        message = await request.receive()
                        if message["type"] == "http.disconnect":
                            raise ClientDisconnect
                        piece, more = message.get("body", b""), message.get("more_body", False)
                        if len(body) + len(piece) > most:
                            raise too_long
                        if self.held + len(piece) > self.total_bytes:
                            raise Refused(503, "too many uploads at a time", fix=RETRY)
                        self.held += len(piece)
                        body += piece
            except TimeoutError:
                problem = f"the body did not arrive within {self.seconds:g} seconds"
                raise Refused(408, problem, fix=fix) from None
            yield bytes(body)
        finally:
            self.held -= len(body)


class AppState:
    """State shared by all routes: index, settings, limits, caches."""

    def __init__(self, index: Index, settings: Settings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.hosts = known_hosts(settings.host, settings.host_names)
        self.samples = None if settings.samples is None else gallery.read_samples(settings.samples)
        self.report = None if settings.report is None else read_report(settings.report)
        self.embed_vectors: Callable[[Values], Gaussians] | None = None  # None for images
        if not index.has_model:
            upgrade = Upgrade.of_index(index.folder)
            self.embed_vectors = partial(as_points, dim=index.space.dim) if upgrade is None else upgrade.embed
        self.thumbnail = lru_cache(1024)(self._draw_thumbnail)
        self.admission = Admission(settings.queue)
        self.uploads = UploadBudget(settings.uploads, settings.upload_seconds)
        self._lock = Lock()
        self._overview: tuple[gallery.GallerySample, gallery.GalleryMap] | None = None
        self.service = Service(index, settings, self.metrics.batch)  # last: it starts threads

    @property
    def served(self) -> ServedVersion:
        """The version of the index that new requests use."""
        return self.service.live.current

    @property
    def picture_roots(self) -> tuple[Path, ...]:
        return (*self.settings.pictures, *self.served.index.picture_roots)

    def overview(self) -> tuple[gallery.GallerySample, gallery.GalleryMap]:
        """Return a sample of the index and its map, cached. Not for the event loop."""
        served = self.served
        with self._lock:
            cached = self._overview
            if cached is None or abs(served.images - cached[0].of) > cached[0].of / 10:
                sample = gallery.sample_gallery(served.index._engine)
                cached = self._overview = sample, gallery.GalleryMap(sample)
            return cached

    def row(self, name: str) -> Rows:
        """Return the row of an image; raise Refused if it is not in the index."""
        rows = self.served.index.items([name])
        if not len(rows):
            raise Refused(404, "no such item")
        return rows

    def _draw_thumbnail(self, name: str, digest: str, side: int) -> bytes:
        """Draw the thumbnail of an image whose content has that digest."""
        metadata, most = self.row(name).metadata[0], self.settings.max_bytes
        content = read_picture(name, metadata, digest, roots=self.picture_roots, max_bytes=most)
        return gallery.draw_thumbnail(content, side)

    async def keep_reloading(self) -> None:
        """Load newer versions of the index, until cancelled."""
        while self.settings.reload_seconds:
            await asyncio.sleep(self.settings.reload_seconds)
            try:
                await self.service.in_thread(self.service.live.reload_if_newer)
            except Exception:
                logger.exception("checking for a newer version failed")


async def state_of(request: Request) -> AppState:
    state: AppState = request.app.state.surefind
    return state


def read_report(folder: Path) -> bytes:
    """Read the self-contained report of `surefind evaluate`."""
    try:
        return (folder / PAGE).read_bytes()
    except OSError as error:
        raise InvalidFile(
            f"there is no report in {folder}: {PAGE}: {error.strerror}",
            fix=f"create one: surefind evaluate MODEL DATA -o {folder}",
        ) from error
