"""What a caller gives from memory, vectors and labels, or one clear error."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefind.embeddings import LARGEST
from surefind.errors import InvalidArgument
from surefind.search.confidence.truth import is_missing

Values = NDArray[np.floating] | Tensor


def as_vectors(vectors: Values, dim: int | None = None) -> Tensor:
    """(N, D) float32, finite; refused if it is anything else."""
    given = _numbers(vectors)
    if given.ndim != 2 or dim not in (None, given.shape[1]) or not given.numel():
        raise InvalidArgument(
            "vectors",
            expected=f"vectors of one model, (N, {'D' if dim is None else dim})",
            got=f"shape {tuple(given.shape)}",
            fix="one row per image; queries from the model that made the gallery",
        )
    bad = (~(given.abs() <= LARGEST).all(dim=1)).nonzero()  # so for nan, too
    if len(bad):
        raise InvalidArgument(
            "vectors",
            expected=f"finite numbers of at most {LARGEST:g}",
            got=f"{len(bad)} of {len(given)} rows with others (first: row {int(bad[0])})",
            fix="leave those rows out, and look at how they were made",
        )
    return given


def as_texts(labels: Sequence[object] | None, count: int) -> list[str]:
    """One for each vector, "" where it is missing: tables have nan, None or nothing there."""
    if isinstance(labels, np.ndarray | Tensor):
        labels = labels.reshape(-1).tolist()
    if labels is None or len(labels) != count:
        raise InvalidArgument(
            "labels",
            expected=f"{count}, one per vector",
            got="none" if labels is None else str(len(labels)),
            fix="say what each vector shows; equal labels are matches",
        )
    return ["" if is_missing(label) else str(label) for label in labels]


def _numbers(vectors: object) -> Tensor:
    """As float32; an array that torch cannot share, such as one in a read-only file, is copied."""
    if isinstance(vectors, Tensor):
        if (
            vectors.layout != torch.strided
            or vectors.dtype.is_complex
            or vectors.dtype == torch.bool
        ):
            raise _no_numbers(f"a tensor of {vectors.dtype}, {vectors.layout}")
        return vectors.detach().cpu().float()
    try:
        array = np.asarray(vectors)
    except ValueError as error:  # rows of different lengths
        raise _no_numbers(str(error)) from error
    if array.dtype.kind not in "fiu":
        raise _no_numbers(f"{type(vectors).__name__} of {array.dtype}")
    with np.errstate(over="ignore"):  # what is too large for float32 is refused later
        return torch.from_numpy(np.require(array, np.float32, ["C", "W"]))


def _no_numbers(got: str) -> InvalidArgument:
    return InvalidArgument(
        "vectors",
        expected="an array or tensor of real numbers, (N, D)",
        got=got,
        fix="convert them: np.asarray(vectors, dtype='float32'), one row per vector",
    )
