"""The version of an index that is served, and how a newer one takes its place."""

import logging
from dataclasses import dataclass, replace
from threading import Lock

from surefind.engines.engine import EngineError
from surefind.errors import SurefindError
from surefind.search.index import Index

logger = logging.getLogger("surefind.serve")


@dataclass(frozen=True)
class Shown:
    """What every request of a moment is answered from."""

    index: Index
    images: int
    version: int | None  # of an index in a folder; a server keeps none
    trouble: str | None = None  # why the newest version could not be taken

    @property
    def warnings(self) -> list[str]:
        return [self.without_folder(warning) for warning in self.index.warnings]

    def without_folder(self, text: str) -> str:
        """With the name of the index instead of where it is: that is nobody else's affair."""
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
    def of(cls, index: Index) -> "Shown":
        facts = index.describe()
        version = facts.get("version")
        return cls(index, facts["images"], version if isinstance(version, int) else None)


class Shelf:
    """A request takes `now` once and keeps to it: a swap in between disturbs nobody."""

    def __init__(self, index: Index) -> None:
        self.now = Shown.of(index)
        self.reloads = 0
        self._lock = Lock()

    def look(self) -> bool:
        """Take a newer version if there is one; True if it was taken."""
        with self._lock:
            try:
                newer = self.now.index.newest()
                shown = self.now if newer is None else Shown.of(newer)
            except (SurefindError, OSError) as error:
                trouble = self.now.public(error)
                if trouble != self.now.trouble:
                    problem = getattr(error, "problem", error)
                    logger.warning("the newest version cannot be served: %s", problem)
                self.now = replace(self.now, trouble=trouble)
                return False
            if newer is None:
                if self.now.trouble is not None:
                    self.now = replace(self.now, trouble=None)
                return False
            self.now = shown
            self.reloads += 1
        for warning in newer.warnings:
            logger.warning("%s", warning)
        logger.info("serving %d images", shown.images)
        return True
