"""All that the routes share."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

from starlette.requests import Request

from surefind.search.index import Index
from surefind.serve.admission import Admission
from surefind.serve.gallery.report import Report
from surefind.serve.gallery.samples import Samples
from surefind.serve.gallery.thumbnails import Thumbnails
from surefind.serve.guards.bodies import UploadRoom
from surefind.serve.guards.hosts import allowed_hosts
from surefind.serve.meters import Meters
from surefind.serve.service import Service
from surefind.serve.settings import Settings
from surefind.serve.views import Views
from surefind.upgrade.upgrade import Upgrade

logger = logging.getLogger("surefind.serve")


class Hall:
    """One for each app; made before anything is asked, so that bad settings are told at once."""

    def __init__(self, index: Index, settings: Settings) -> None:
        self.settings, self.meters = settings, Meters()
        self.hosts = allowed_hosts(settings.host, settings.host_names)
        self.samples = None if settings.samples is None else Samples.read(settings.samples)
        self.report = None if settings.report is None else Report.read(settings.report)
        self.upgrade = Upgrade.of_index(index.folder)
        self.thumbnails, self.views = Thumbnails(), Views()
        self.admission, self.uploads = Admission(settings.queue), UploadRoom(settings.uploads)
        for reason in () if self.samples is None else self.samples.left_out:
            logger.warning("left out of the samples: %s", reason)
        self.service = Service(index, settings, self.meters)  # last: it has threads

    @property
    def picture_roots(self) -> tuple[Path, ...]:
        return (*self.settings.pictures, *self.service.shelf.now.index.picture_roots)

    async def keep_looking(self) -> None:
        """Take newer versions of the index as they come, until cancelled."""
        while self.settings.reload_seconds:
            await asyncio.sleep(self.settings.reload_seconds)
            try:
                await self.service.in_thread(self.service.shelf.look)
            except Exception:
                logger.exception("looking for a newer version failed")

    async def close(self, looking: "asyncio.Task[None]") -> None:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        self.views.stop()
        await asyncio.to_thread(self.service.close)


def hall_of(request: Request) -> Hall:
    hall: Hall = request.app.state.hall
    return hall
