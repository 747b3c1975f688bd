"""A bomb that only PNG carries: packed text, found by its chunks before it is unpacked."""

import struct

from surefind.images.unfit import Unfit

MOST_TEXTS = 16  # packed ones; Pillow unpacks up to a megabyte of each
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PACKED = (b"zTXt", b"iTXt", b"iCCP")


def refuse_png_bombs(data: bytes) -> None:
    """Refuse a PNG with more packed text than any picture has a use for."""
    if not data.startswith(_SIGNATURE):
        return
    start, found = len(_SIGNATURE), 0
    while start + 8 <= len(data):
        length, kind = struct.unpack_from(">L4s", data, start)
        found += kind in _PACKED
        if found > MOST_TEXTS:
            raise Unfit(f"too many packed texts: more than {MOST_TEXTS}")
        start += 12 + length
