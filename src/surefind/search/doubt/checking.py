"""What is needed to learn doubt from labelled vectors, and how much of it is there."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefind.embeddings import LARGEST
from surefind.errors import InvalidArgument
from surefind.search.confidence.truth import is_missing

FEWEST_VECTORS, FEWEST_CLASSES = 20, 4
Labels = Sequence[str] | Sequence[int] | NDArray[np.generic] | Tensor


def class_codes(labels: Labels) -> Tensor:
    """Classes as numbers from 0, (N,)."""
    values = labels.tolist() if isinstance(labels, np.ndarray | Tensor) else list(labels)
    missing = sum(map(is_missing, values))
    if missing:
        raise InvalidArgument(
            "labels",
            expected="a label for every vector",
            got=f"{missing} of {len(values)} without one",
            fix="label them, or leave those vectors out",
        )
    _, codes = np.unique([str(value) for value in values], return_inverse=True)
    return torch.as_tensor(codes, dtype=torch.int64)


def check_fit(vectors: Tensor, codes: Tensor, *, heads: object, steps: object) -> None:
    """Refuse what no heads can be fitted to."""
    _check_tensor(vectors)
    _check_numbers(vectors)
    _require(
        len(codes) == len(vectors),
        "labels",
        f"{len(vectors)}, one per vector",
        str(len(codes)),
        "pass vectors and labels in the same order",
    )
    _require(
        len(vectors) >= FEWEST_VECTORS,
        "vectors",
        f"at least {FEWEST_VECTORS} labelled vectors",
        str(len(vectors)),
        "label more of them",
    )
    pairs = int((codes.bincount() > 1).sum())
    _require(
        pairs >= FEWEST_CLASSES,
        "labels",
        f"at least {FEWEST_CLASSES} classes with two vectors or more",
        f"{pairs} of {len(codes.unique())} classes",
        "label more vectors of the same things",
    )
    even = isinstance(heads, int) and heads >= 4 and heads % 2 == 0
    _require(even, "heads", "an even number of at least 4", repr(heads), "e.g. heads=8")
    whole = isinstance(steps, int) and not isinstance(steps, bool) and steps >= 1
    _require(whole, "steps", "a whole number of at least 1", repr(steps), "e.g. steps=150")


def _check_tensor(vectors: object) -> None:
    got = type(vectors).__name__
    usable = False
    if isinstance(vectors, Tensor):
        got = f"{vectors.dtype} {tuple(vectors.shape)}"
        usable = vectors.is_floating_point() and vectors.ndim == 2 and vectors.shape[1] > 0
    _require(
        usable,
        "vectors",
        "a floating-point tensor (N, D)",
        got,
        "convert them: torch.as_tensor(vectors).float(), one row per vector",
    )


def _check_numbers(vectors: Tensor) -> None:
    usable = (vectors.abs() <= LARGEST).all(dim=1)  # not so for nan
    _require(
        bool(usable.all()),
        "vectors",
        f"finite numbers of at most {LARGEST:g}",
        f"{int((~usable).sum())} of {len(vectors)} rows with others",
        "leave those rows out: torch.isfinite(vectors).all(dim=1)",
    )


def _require(condition: bool, argument: str, expected: str, got: str, fix: str) -> None:
    if not condition:
        raise InvalidArgument(argument, expected=expected, got=got, fix=fix)
