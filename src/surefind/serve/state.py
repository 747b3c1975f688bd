"""State shared by all routes."""

import asyncio
import logging
from functools import lru_cache
from pathlib import Path
from threading import Lock

from starlette.requests import Request

from surefind.engines.base import Rows
from surefind.errors import InvalidFile
from surefind.reports.result import PAGE
from surefind.search.image_files import read_picture
from surefind.search.index import Index
from surefind.serve import gallery
from surefind.serve.errors import Refused
from surefind.serve.limits import Admission, UploadBudget
from surefind.serve.metrics import Metrics
from surefind.serve.security import known_hosts
from surefind.serve.service import Service
from surefind.serve.settings import Settings
from surefind.vectors.upgrade import Upgrade

CACHED_THUMBNAILS = 1024
CHANGED = 0.1  # relative change of the index's size after which it is sampled again

logger = logging.getLogger("surefind.serve")


class AppState:
    """State shared by all routes: index, settings, limits, caches."""

    def __init__(self, index: Index, settings: Settings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.hosts = known_hosts(settings.host, settings.host_names)
        self.samples = None if settings.samples is None else gallery.read_samples(settings.samples)
        self.report = None if settings.report is None else read_report(settings.report)
        self.upgrade = Upgrade.of_index(index.folder)
        self.thumbnail = lru_cache(CACHED_THUMBNAILS)(self._draw_thumbnail)
        self.admission = Admission(settings.queue)
        self.uploads = UploadBudget(settings.uploads, settings.upload_seconds)
        self._lock = Lock()
        self._overview: tuple[gallery.GallerySample, gallery.GalleryMap] | None = None
        self.service = Service(index, settings, self.metrics)  # last: it starts threads

    @property
    def picture_roots(self) -> tuple[Path, ...]:
        return (*self.settings.pictures, *self.service.live.current.index.picture_roots)

    def overview(self) -> tuple[gallery.GallerySample, gallery.GalleryMap]:
        """Return a sample of the index and its map, cached. Not for the event loop."""
        served = self.service.live.current
        with self._lock:
            cached = self._overview
            if cached is None or abs(served.images - cached[0].of) > CHANGED * cached[0].of:
                sample = gallery.sample_gallery(served.index._engine)
                cached = self._overview = sample, gallery.GalleryMap(sample)
            return cached

    def row(self, name: str) -> Rows:
        """Return the row of an image; raise Refused if it is not in the index."""
        rows = self.service.live.current.index.items([name])
        if not len(rows):
            raise Refused(404, "no such item")
        return rows

    def _draw_thumbnail(self, name: str, digest: str, side: int) -> bytes:
        """Draw the thumbnail of an image whose content has that digest."""
        metadata, most = self.row(name).metadata[0], self.settings.max_bytes
        roots = self.picture_roots
        content = read_picture(name, metadata, digest, roots=roots, max_bytes=most)
        return gallery.draw_thumbnail(content, side)

    async def keep_reloading(self) -> None:
        """Load newer versions of the index, until cancelled."""
        while self.settings.reload_seconds:
            await asyncio.sleep(self.settings.reload_seconds)
            try:
                await self.service.in_thread(self.service.live.reload_if_newer)
            except Exception:
                logger.exception("checking for a newer version failed")


def state_of(request: Request) -> AppState:
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
