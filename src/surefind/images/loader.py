"""Loader: batches of images, decoded ahead in threads; bad images are skipped and reported. Digests find copies."""

import hashlib
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefind.errors import SurefindError
from surefind.images.decode import DEFAULT, DecodePolicy, ImageRejected, ImageSource, decode
from surefind.validation import check_share, check_whole

_SHOWN = 5  # rejected images named in an error


class Rejection(NamedTuple):
    """Image that was skipped, and the reason."""

    row: int
    path: str  # "image" where the source had no name
    reason: str


class Batch(NamedTuple):
    """Images that were read, and their rows in the sources."""

    rows: Tensor  # (n,) int64, ascending
    images: list[Tensor]  # (3, H, W) uint8

    @property
    def pixels(self) -> Tensor:
        """Images of one size as one tensor, (n, 3, S, S) uint8."""
        # torch.stack starts threads that spin against the decoders.
        return torch.from_numpy(np.stack([image.numpy() for image in self.images]))


class TooManyRejected(SurefindError):
    """More than the allowed share of images cannot be used."""

    def __init__(self, rejected: Sequence[Rejection], *, total: int, max_bad_share: float) -> None:
        shown = "".join(f"\n  {r.path}: {r.reason}" for r in rejected[:_SHOWN])
        more = len(rejected) - _SHOWN
        super().__init__(
            f"{len(rejected)} of {total} images cannot be used, at most {max_bad_share:.2%} may be:"
            + shown
            + (f"\n  and {more} more" if more > 0 else ""),
            fix="repair or remove them, or skip them all: max_bad_share=1 (--max-bad-share 1)",
        )
        self.rejected = tuple(rejected)


class Loader:
    """Batches in the order of the sources; a bad image is skipped and listed in `rejected`.

    Raises TooManyRejected as soon as more than `max_bad_share` of all sources were bad. At most
    `1 + prefetch` batches are in memory. Decoding and resizing release the GIL.
    """

    def __init__(
        self,
        sources: Sequence[ImageSource],
        resize: Callable[[Tensor], Tensor],
        *,
        batch_size: int = 64,
        workers: int | None = None,  # threads; one per core unless given
        prefetch: int = 2,  # batches made ahead of the one in use
        max_bad_share: float = 0.05,
        policy: DecodePolicy = DEFAULT,
    ) -> None:
        workers = usable_cores() if workers is None else workers
        check_whole("batch_size", batch_size)
        check_whole("workers", workers)
        check_whole("prefetch", prefetch, smallest=0)
        check_share("max_bad_share", max_bad_share, closed=True)
        self.sources, self.resize, self.policy = sources, resize, policy
        self.batch_size, self.workers, self.prefetch = batch_size, workers, prefetch
        self.max_bad_share = max_bad_share
        self.rejected: list[Rejection] = []  # of the current or last pass

    def __iter__(self) -> Iterator[Batch]:
        self.rejected = []
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="surefind-images")
        try:
            rows, size = range(len(self.sources)), self.batch_size
            groups = ([pool.submit(self._load, row) for row in rows[start : start + size]] for start in rows[::size])
            ahead = deque(islice(groups, 1 + self.prefetch))
            while ahead:
                batch = self._collect(ahead.popleft())
                if batch is not None:
                    yield batch
                ahead.extend(islice(groups, 1))
        finally:  # also when the caller leaves early
            pool.shutdown(cancel_futures=True)

    def _load(self, row: int) -> tuple[int, Tensor] | Rejection:
        try:
            pixels = decode(self.sources[row], self.policy)
        except ImageRejected as rejected:
            return Rejection(row, rejected.source, rejected.reason)
        return row, self.resize(pixels)

    def _collect(self, futures: list[Future[tuple[int, Tensor] | Rejection]]) -> Batch | None:
        loaded = []
        for future in futures:
            result = future.result()
            if not isinstance(result, Rejection):
                loaded.append(result)
                continue
            self.rejected.append(result)
            total, share = len(self.sources), self.max_bad_share
            if len(self.rejected) > share * total + 1e-9:  # 0.29 * 100 < 29
                raise TooManyRejected(self.rejected, total=total, max_bad_share=share)
        if not loaded:
            return None
        rows, images = zip(*loaded, strict=True)
        return Batch(torch.tensor(rows), list(images))


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # fewer than the machine has, in a container
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def digest_of(source: ImageSource) -> str:
    """Return the sha256 of the content, in hex; "" for a file that cannot be read."""
    digest = hashlib.sha256()
    if isinstance(source, str | Path):
        try:
            with Path(source).open("rb") as file:
                while piece := file.read(1 << 20):
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


def file_digests(files: Sequence[str | Path]) -> list[str]:
    """Return the sha256 of each file that may have a copy; "" if no other has its size."""
    sizes = [os.path.getsize(file) if os.path.isfile(file) else -1 for file in files]  # noqa: PTH113, PTH202
    alike = Counter(sizes)
    return [digest_of(file) if size >= 0 and alike[size] > 1 else "" for file, size in zip(files, sizes, strict=True)]
