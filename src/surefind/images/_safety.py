"""Refuse TIFF decompression bombs; silence Pillow's warnings."""

import os
import struct
import warnings
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import Any, cast

MAX_TILES = 65_535  # or strips; Pillow creates an object for each before it reads one
_OFFSETS = (273, 324)  # StripOffsets, TileOffsets
_TILE_SIDES = (322, 323)  # TileWidth, TileLength
_SHORT = 3


class Unfit(Exception):
    """Internal: reason for rejection; `decode` converts it to ImageRejected."""

    def __init__(self, reason: str, *, fix: str = "replace the image, or leave it out") -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix


def refuse_tiff_bombs(data: bytes, max_pixels: int) -> None:
    """Raise Unfit for a TIFF with huge or too many tiles; of repeated tags the largest counts."""
    order = {b"II": "<", b"MM": ">"}.get(data[:2])
    if order is None or data[2:4] not in (b"\x2a\0", b"\0\x2a", b"\x2b\0", b"\0\x2b"):
        return
    if 0x2B in data[2:4]:
        raise Unfit("unsupported format BigTIFF", fix="save it as PNG or as a classic TIFF")
    sides = dict.fromkeys(_TILE_SIDES, 1)
    for tag, kind, count, value in _directory(data, order):
        if tag in _OFFSETS and count > MAX_TILES:
            raise Unfit(f"too many strips or tiles: {count:,}, at most {MAX_TILES:,}")
        if tag in _TILE_SIDES:
            (side,) = struct.unpack(order + ("H2x" if kind == _SHORT else "L"), value)
            sides[tag] = max(sides[tag], side)
    width, height = sides.values()
    if width * height > max_pixels:
        raise Unfit(f"too many pixels in a tile: {width * height:,}, at most {max_pixels:,}")


def _directory(data: bytes, order: str) -> list[tuple[int, int, int, bytes]]:
    """Tag, type, count and value of each entry of the first page, as far as the file goes."""
    if len(data) < 8:
        return []
    (start,) = struct.unpack_from(order + "L", data, 4)
    if start + 2 > len(data):
        return []
    (count,) = struct.unpack_from(order + "H", data, start)
    last = min(start + 2 + 12 * count, len(data) - 11)
    return [
        struct.unpack_from(order + "HHL4s", data, entry) for entry in range(start + 2, last, 12)
    ]


class QuietPillow:
    """Ignore Pillow's warnings, in any number of threads.

    `warnings.catch_warnings` swaps the filters of the whole process, so overlapping threads
    restore them wrongly. Here the first thread adds one filter and the last one removes it.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._filter: object = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                warnings.filterwarnings("ignore", module=r"PIL\.")
                self._filter = warnings.filters[0]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                with suppress(ValueError):  # a catch_warnings of the caller ended meanwhile
                    cast("list[Any]", warnings.filters).remove(self._filter)


quiet_pillow = QuietPillow()
if hasattr(os, "register_at_fork"):  # a lost thread may hold the lock
    os.register_at_fork(after_in_child=quiet_pillow.reset)
