"""Thumbnails that were drawn before, as many as fit into some memory."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock

from surefind.serve.gallery.drawing import draw_thumbnail

MOST_BYTES = 64 * 2**20

Wanted = tuple[Hashable, int]  # which picture, how large


class Thumbnails:
    """Those asked for last are kept. Two threads that ask for the same one draw it once."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.bytes = self.hits = self.misses = 0
        self._kept: OrderedDict[Wanted, bytes] = OrderedDict()
        self._drawing: dict[Wanted, Future[bytes]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: Hashable, side: int, *, read: Callable[[], bytes]) -> bytes:
        """The thumbnail of a picture; `key` changes with its content, `read` gives its file."""
        wanted = (key, side)
        with self._lock:
            if (kept := self._kept.get(wanted)) is not None:
                self._kept.move_to_end(wanted)
                self.hits += 1
                return kept
            drawing = self._drawing.get(wanted)
            if drawing is None:
                self.misses += 1
                drawn = self._drawing[wanted] = Future[bytes]()
            else:
                self.hits += 1
        if drawing is not None:
            return drawing.result()
        return self._draw(wanted, drawn, read)

    def _draw(self, wanted: Wanted, drawn: Future[bytes], read: Callable[[], bytes]) -> bytes:
        try:
            thumbnail = draw_thumbnail(read(), wanted[1])
        except BaseException as error:  # whoever waits for it is told as well
            with self._lock:
                del self._drawing[wanted]
            drawn.set_exception(error)
            raise
        with self._lock:
            del self._drawing[wanted]
            self._keep(wanted, thumbnail)
        drawn.set_result(thumbnail)
        return thumbnail

    def _keep(self, wanted: Wanted, thumbnail: bytes) -> None:
        self._kept[wanted] = thumbnail
        self.bytes += len(thumbnail)
        while self.bytes > self.most_bytes:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= len(oldest)
