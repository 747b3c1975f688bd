"""What is shown of a gallery as a whole, looked at when it is first asked for."""

from dataclasses import dataclass
from functools import cached_property
from threading import Lock

from surefind.serve.gallery.gallery_map import GalleryMap
from surefind.serve.gallery.sketch import Sketch, sketch
from surefind.serve.gallery.uncertainty import uncertainty_of
from surefind.serve.schemas import UncertaintyAnswer
from surefind.serve.shelf import Shown

CHANGED = 0.1  # share by which a gallery grows or shrinks before it is looked at anew


@dataclass(frozen=True)
class View:
    """A sample of the gallery, and what is made of it."""

    sketch: Sketch
    map: GalleryMap

    @cached_property
    def uncertainty(self) -> UncertaintyAnswer:
        return UncertaintyAnswer(**uncertainty_of(self.sketch.every_var, self.sketch.of))

    @property
    def has_variance(self) -> bool:
        return bool(self.uncertainty.edges)


class Views:
    """The view of the version that is served; a little older where little has changed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._view: View | None = None

    def of(self, shown: Shown) -> View:
        """Takes a while the first time: not for the event loop."""
        with self._lock:
            if self._view is None or _has_changed(self._view.sketch, shown.images):
                self.stop()
                taken = sketch(shown.index)
                self._view = View(taken, GalleryMap(taken, shown.index.folder))
            return self._view

    def stop(self) -> None:
        if self._view is not None:
            self._view.map.stop()


def _has_changed(before: Sketch, images: int) -> bool:
    return abs(images - before.of) > CHANGED * before.of
