"""Digests (sha256) of images, to find copies."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from surefind.images.decode import ImageSource

_READ_AT_ONCE = 1 << 20


def digest_of(source: ImageSource) -> str:
    """Return the sha256 of the content, in hex; "" for a file that cannot be read."""
    digest = hashlib.sha256()
    if isinstance(source, str | Path):
        try:
            with Path(source).open("rb") as file:
                while piece := file.read(_READ_AT_ONCE):
                    digest.update(piece)
        except (OSError, ValueError):
            return ""  # decoding reports the reason
    elif isinstance(source, bytes):
        digest.update(source)
    else:
        pixels = source.cpu().numpy() if isinstance(source, Tensor) else np.asarray(source)
        digest.update(f"{pixels.dtype} {pixels.shape}\n".encode())
        digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def file_digests(files: Sequence[Path]) -> list[str]:
    """Return the sha256 of each file that may have a copy; "" if no other has its size."""
    sizes = [file.stat().st_size if file.is_file() else -1 for file in files]
    alike = Counter(sizes)
    return [digest_of(file) if alike[size] > 1 else "" for file, size in zip(files, sizes, strict=True)]
