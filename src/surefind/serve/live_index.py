"""The version of an index that is served, and how a newer one takes its place."""

import logging
from dataclasses import dataclass, replace
from threading import Lock

from surefind.engines.engine import EngineError
from surefind.errors import SurefindError
from surefind.search.index import Index

logger = logging.getLogger("surefind.serve")


@dataclass(frozen=True)
class ServedVersion:
    """What every request of a moment is answered from."""

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
                if self.current.trouble is not None:
                    self.current = replace(self.current, trouble=None)
                return False
            self.current = served
            self.reloads += 1
        for warning in served.index.warnings:
            logger.warning("%s", warning)
        logger.info("serving %d images", served.images)
        return True
