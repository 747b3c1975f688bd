"""Photos in several views, encoded once and kept."""

from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor

import surefind as sf
from surefind.images.decode import decode

CROP = 0.8  # of each side
FILES_AT_ONCE = 256


def crop(pixels: Tensor, across: float) -> Tensor:
    """From the left (0) to the right end (1), in the middle of the height."""
    height, width = (max(1, round(CROP * side)) for side in pixels.shape[1:])
    top, left = (pixels.shape[1] - height) // 2, round(across * (pixels.shape[2] - width))
    return pixels[:, top : top + height, left : left + width]


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "photo": lambda pixels: pixels,
    "mirror": lambda pixels: pixels.flip(2),
    "left": lambda pixels: crop(pixels, 0),
    "middle": lambda pixels: crop(pixels, 0.5),
    "right": lambda pixels: crop(pixels, 1),
}


def encode_view(encoder: sf.Encoder, files: Sequence[Path], view: str, keep: Path) -> sf.Embeddings:
    kept = keep / f"{encoder.fingerprint[:16]}-{len(files)}-{view}.safetensors"
    if kept.exists():
        return sf.Embeddings.load(kept)
    parts = [encoder.empty()]
    for start in range(0, len(files), FILES_AT_ONCE):
        some = files[start : start + FILES_AT_ONCE]
        parts.append(encoder.encode([VIEWS[view](decode(file)) for file in some]))
    embeddings = type(parts[0]).cat(parts)
    embeddings.save(kept)
    return embeddings
