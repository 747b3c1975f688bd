"""State shared by all routes: service, settings, limits, caches."""

import asyncio
import logging
from pathlib import Path
from threading import Lock

from starlette.requests import Request

from surefind.errors import InvalidFile
from surefind.reports.result import PAGE
from surefind.search.index import Index
from surefind.serve.gallery import GalleryMap, GallerySample, sample_gallery
from surefind.serve.limits import Admission, UploadBudget
from surefind.serve.metrics import Metrics
from surefind.serve.security import known_hosts
from surefind.serve.service import Service
from surefind.serve.settings import Settings
from surefind.serve.thumbnails import Thumbnails, read_samples
from surefind.vectors.upgrade import Upgrade

CHANGED = 0.1  # share by which a gallery grows or shrinks before it is sampled anew

logger = logging.getLogger("surefind.serve")


class AppState:
    """One for each app; made first, so that bad settings are reported at once."""

    def __init__(self, index: Index, settings: Settings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.hosts = known_hosts(settings.host, settings.host_names)
        self.samples = None if settings.samples is None else read_samples(settings.samples)
        self.report = None if settings.report is None else read_report(settings.report)
        self.upgrade = Upgrade.of_index(index.folder)
        self.thumbnails = Thumbnails()
        self.admission = Admission(settings.queue)
        self.uploads = UploadBudget(settings.uploads, settings.upload_seconds)
        self._lock = Lock()
        self._overview: tuple[GallerySample, GalleryMap] | None = None
        self.service = Service(index, settings, self.metrics)  # last: it has threads

    @property
    def picture_roots(self) -> tuple[Path, ...]:
        return (*self.settings.pictures, *self.service.live.current.index.picture_roots)

    def overview(self) -> tuple[GallerySample, GalleryMap]:
        """A sample of the gallery and its map, anew once a tenth has changed. Slow at first."""
        served = self.service.live.current
        with self._lock:
            before = self._overview
            if before is None or abs(served.images - before[0].of) > CHANGED * before[0].of:
                sample = sample_gallery(served.index._engine)
                before = self._overview = sample, GalleryMap(sample)
            return before

    async def keep_reloading(self) -> None:
        """Take newer versions of the index as they come, until cancelled."""
        while self.settings.reload_seconds:
            await asyncio.sleep(self.settings.reload_seconds)
            try:
                await self.service.in_thread(self.service.live.reload_if_newer)
            except Exception:
                logger.exception("looking for a newer version failed")


def state_of(request: Request) -> AppState:
    state: AppState = request.app.state.surefind
    return state


def read_report(folder: Path) -> bytes:
    """Read the report of `surefind evaluate`, one file that needs nothing beside it."""
    try:
        return (folder / PAGE).read_bytes()
    except OSError as error:
        raise InvalidFile(
            f"there is no report in {folder}: {PAGE}: {error.strerror}",
            fix=f"make one: surefind evaluate MODEL DATA -o {folder}",
        ) from error
