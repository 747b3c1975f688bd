"""A map of a gallery, drawn in the background when it is first asked for."""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread, get_native_id
from typing import Any

from surefind.errors import SurefindError
from surefind.serve.gallery.map_file import Positions, read_map, write_map
from surefind.serve.gallery.projection import method_of, project
from surefind.serve.gallery.sketch import Sketch

NICENESS = 10  # of the thread: searches go first
DIGITS = 5  # of a position; a screen has fewer

_NOTHING: dict[str, Any] = {"ready": True} | {
    name: [] for name in ("items", "ids", "labels", "x", "y", "var")
}

logger = logging.getLogger("surefind.serve")


class GalleryMap:
    """Made from a sketch; kept in the folder of the index, if that is given and can be written."""

    def __init__(self, sketch: Sketch, index_folder: Path | None = None) -> None:
        self._sketch = sketch
        self._folder = None if index_folder is None else index_folder / "map"
        self._lock = Lock()
        self._thread: Thread | None = None
        self._stopped = False
        self._answer: dict[str, Any] | None = None

    @property
    def sentence(self) -> str:
        """What it shows, or what it waits for."""
        if (answer := self._answer) is not None:
            return str(answer["sentence"])
        return f"projecting {_images(len(self._sketch))}"

    def answer(self) -> dict[str, Any] | None:
        """The map as JSON; none while it is being drawn, which the first question begins.

        If it cannot be drawn, it is a map without images whose sentence says why.
        """
        with self._lock:
            if self._thread is None and not self._stopped:
                thread = Thread(target=self._draw, name="surefind-map", daemon=True)
                with suppress(RuntimeError):  # no more threads now: the next question tries again
                    thread.start()
                    self._thread = thread
        return self._answer

    def wait(self, seconds: float | None = None) -> None:
        """Until it is drawn, if it was asked for."""
        if self._thread is not None:
            self._thread.join(seconds)

    def stop(self) -> None:
        """What is being drawn is dropped; the process may end without waiting for it."""
        with self._lock:
            self._stopped = True

    def _draw(self) -> None:
        _step_back()
        try:
            answer = _shown(self._sketch, self._positions())
        except Exception as error:  # told, not raised: there is nobody to catch it in a thread
            logger.exception("the map cannot be drawn")
            reason = error.problem if isinstance(error, SurefindError) else str(error)
            answer = _NOTHING | {"sentence": f"the map cannot be drawn: {reason or repr(error)}"}
        with self._lock:
            if not self._stopped:
                self._answer = answer

    def _positions(self) -> Positions:
        if self._folder is None:
            return project(self._sketch.means)
        positions = read_map(self._folder, self._sketch)
        if positions is None:
            positions = project(self._sketch.means)
            if not self._stopped:
                write_map(self._folder, self._sketch, positions=positions)
        return positions


def _step_back() -> None:
    """Let the other threads go first; elsewhere than on Linux that would mean the process."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), NICENESS)


def _shown(sketch: Sketch, positions: Positions) -> dict[str, Any]:
    x, y = positions.astype(float).round(DIGITS).T.tolist()
    return {
        "ready": True,
        "sentence": _sentence(sketch),
        "items": list(sketch.items),
        "ids": list(sketch.ids),
        "labels": list(sketch.labels),
        "x": x,
        "y": y,
        "var": sketch.var.tolist(),
    }


def _sentence(sketch: Sketch) -> str:
    if not len(sketch):
        return "there are no images to show"
    some = len(sketch) < sketch.of
    shown = f"{len(sketch):,} of {_images(sketch.of)}" if some else _images(len(sketch))
    return f"{shown} by {method_of(len(sketch))}: near each other here means alike"


def _images(count: int) -> str:
    return f"{count:,} image" + "s" * (count != 1)
