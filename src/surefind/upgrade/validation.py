"""Validate vectors and labels, from memory or from a file."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefind.embeddings import LARGEST
from surefind.errors import InvalidArgument
from surefind.search.confidence.labelled_queries import is_missing

Values = NDArray[np.floating] | Tensor


def as_vectors(vectors: Values, dim: int | None = None) -> Tensor:
    """Return vectors as (N, D) float32; raise InvalidArgument unless they are finite numbers."""
    given = _float32(vectors)
    if given.ndim != 2 or dim not in (None, given.shape[1]) or not given.numel():
        raise InvalidArgument(
            "vectors",
            expected=f"vectors of one model, (N, {'D' if dim is None else dim})",
            got=f"shape {tuple(given.shape)}",
        )
    bad = (~(given.abs() <= LARGEST).all(dim=1)).nonzero()  # so for nan, too
    if len(bad):
        raise InvalidArgument(
            "vectors",
            expected=f"finite numbers of at most {LARGEST:g}",
            got=f"{len(bad)} of {len(given)} rows with others (first: row {int(bad[0])})",
        )
    return given


def as_texts(
    values: Sequence[object] | NDArray[Any] | None, count: int, *, what: str = "labels"
) -> list[str]:
    """Return one text for each vector, "" where it is missing (nan, None or nothing)."""
    if isinstance(values, np.ndarray | Tensor):
        values = values.reshape(-1).tolist()
    if values is None or len(values) != count:
        got = "none" if values is None else str(len(values))
        raise InvalidArgument(what, expected=f"{count}, one per vector", got=got)
    try:
        return [_text(value) for value in values]
    except UnicodeDecodeError as error:
        raise InvalidArgument(what, expected="text in UTF-8", got=repr(error.object)) from error


def check_all_labelled(labels: Sequence[str]) -> None:
    """Raise InvalidArgument if a label is missing."""
    missing = labels.count("")
    if missing:
        raise InvalidArgument(
            "labels",
            expected="a label for every vector",
            got=f"{missing} of {len(labels)} missing (first: row {labels.index('')})",
        )


def _text(value: object) -> str:
    if is_missing(value):
        return ""
    if isinstance(value, bytes):
        return value.decode()
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _float32(vectors: object) -> Tensor:
    """Convert; an array that torch cannot share, such as one in a read-only file, is copied."""
    got = f"{type(vectors).__name__} of {getattr(vectors, 'dtype', None)}"
    if isinstance(vectors, Tensor):
        numbers = vectors.layout == torch.strided and not vectors.dtype.is_complex
        if numbers and vectors.dtype != torch.bool:
            return vectors.detach().cpu().float()
        got += f", {vectors.layout}"
    else:
        try:
            array = np.asarray(vectors)
        except ValueError as error:  # rows of different lengths
            array, got = np.empty(0, object), str(error)
        if array.dtype.kind in "fiu":
            with np.errstate(over="ignore"):  # what is too large for float32 is refused later
                return torch.from_numpy(np.require(array, np.float32, ["C", "W"]))
    raise InvalidArgument(
        "vectors",
        expected="an array or tensor of real numbers, (N, D)",
        got=got,
        fix="convert them: np.asarray(vectors, dtype='float32'), one row per vector",
    )
