"""Batches of embeddings: one isotropic distribution per image."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from surefind.errors import InvalidArgument, InvalidFile
from surefind.storage import write_whole
from surefind.text import Summary, shorten
from surefind.validation import as_tensor

if TYPE_CHECKING:  # searching vectors does without: it takes most of a second to load
    import torch
    from torch import Tensor

LARGEST = 1e6  # entry of a mean; beyond it products of distances overflow float32
LARGEST_SPREAD = 1e9  # variance
SMALLEST_SPREAD = 1e-12  # variance; below it float32 gradients overflow
_ROUNDING = 1e-6  # tolerance for bounds that were rounded to float32
POINT_VAR = 1e-8  # of embeddings without variance: far below any distance between images
UNIT_TOLERANCE = 1e-4  # largest deviation from 1 of the length of a mean on the sphere


@dataclass(frozen=True, eq=False, repr=False)
class Embeddings(Summary, ABC):
    """N isotropic distributions in D dimensions; use `Gaussians` or `VonMisesFisher`.

    Args:
        mean: (N, D), a tensor in float32 or float64, an array or a list.
    """

    mean: Tensor

    family: ClassVar[str]

    @property
    @abstractmethod
    def spread(self) -> Tensor:
        """The family's own parameter of width, (N,): var of Gaussians, kappa on the sphere."""

    if TYPE_CHECKING:  # a field of Gaussians, a property of VonMisesFisher

        @property
        def var(self) -> Tensor:
            """Variance of each image, (N,); 1/kappa on the sphere."""

    @property
    def dim(self) -> int:
        """Number of dimensions D."""
        return self.mean.shape[1]

    def __len__(self) -> int:
        return self.mean.shape[0]

    def numpy(self) -> NDArray[np.floating]:
        """Return the means as an array, (N, D); so does `np.asarray`."""
        return self.mean.detach().cpu().numpy()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.numpy(), dtype, copy=copy)

    def _facts(self) -> dict[str, object]:
        name = fields(self)[1].name
        facts: dict[str, object] = {"rows": len(self), "dim": self.dim}
        if len(self):
            low, high = (shorten(float(end)) for end in self.spread.detach().aminmax())
            facts[name] = low if low == high else f"{low}..{high}"
        return {**facts, "dtype": str(self.mean.dtype).removeprefix("torch.")}

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, rows: int | slice | Sequence[int] | Tensor) -> Self:
        """Return the given rows; a single integer gives a batch of one."""
        if isinstance(rows, int):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"row {rows} of a batch of {len(self)}")
            rows = [rows]
        return self._map(lambda tensor: tensor[rows])

    def to(self, target: torch.device | torch.dtype | str) -> Self:
        """Return the batch on another device or in another floating-point type, as `torch.Tensor.to` does."""
        return self._map(lambda tensor: tensor.to(target))

    def replace(self, mean: Tensor, spread: Tensor) -> Self:
        """Return a batch of the same family with these values.

        Args:
            mean: (N, D).
            spread: The family's own parameter of width, (N,).
        """
        return type(self)(*[mean, spread])

    def detach(self) -> Self:
        """Return the batch without its gradient history."""
        return self._map(lambda tensor: tensor.detach())

    @classmethod
    def cat(cls, batches: Sequence[Self]) -> Self:
        """Concatenate batches.

        Args:
            batches: At least one, all of this family and of one dimension.

        Raises:
            InvalidArgument: If there is none, or family or dimension differ.
        """
        import torch

        _require(bool(batches), "batches", "at least one batch", "none")
        dim = batches[0].dim
        for batch in batches:
            _require(type(batch) is cls, "batches", f"only {cls.__name__}", type(batch).__name__)
            _require(batch.dim == dim, "batches", f"{dim} dimensions, as in the first", str(batch.dim))
        return cls(*(torch.cat([getattr(b, f.name) for b in batches]) for f in fields(cls)))

    def save(self, path: str | Path, *, about: Mapping[str, str] | None = None) -> None:
        """Write one file, atomically: .npz with the means as `vectors`, otherwise safetensors.

        Args:
            path: The file; an existing one is replaced.
            about: Further metadata for other programs; `load` ignores it.

        Raises:
            SurefindError: If the file cannot be written.
        """
        arrays = {f.name: getattr(self, f.name).detach().cpu().contiguous().numpy() for f in fields(self)}
        facts: dict[str, Any] = {**(about or {}), "family": self.family}
        if Path(path).suffix.lower() == ".npz":
            file = BytesIO()
            np.savez(file, vectors=arrays.pop("mean"), **arrays, **facts)
            write_whole(Path(path), file.getbuffer())
        else:
            write_whole(Path(path), to_safetensors(arrays, facts))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file written by `save` or by `surefind encode`.

        Args:
            path: The file.

        Returns:
            Embeddings of the class it is called on; `Embeddings.load` takes any family.

        Raises:
            InvalidFile: If the file is missing, unreadable, or holds another family.
        """
        family, tensors = _read(Path(path))
        found = FAMILIES.get(family)
        if found is None or not issubclass(found, cls):
            raise InvalidFile(
                f"{path} holds {family!r} embeddings, not {cls.__name__}",
                fix="load it with surefind.Embeddings.load, which takes any family",
            )
        names = [f.name for f in fields(found)]
        if set(names) != set(tensors):
            raise InvalidFile(f"{path} holds the tensors {sorted(tensors)}, expected {names}")
        loaded: Self = found(*(tensors[name] for name in names))
        return loaded

    def _convert(self) -> None:
        """Convert arrays and lists to tensors, in float32 unless they are arrays of float64."""
        for field in fields(self):
            value = getattr(self, field.name)
            tensor = as_tensor(field.name, value)
            if tensor is value:
                continue
            if field.name != "mean":  # the first field
                tensor = tensor.to(self.mean)
            elif not isinstance(value, np.ndarray) or value.dtype != np.float64:
                tensor = tensor.float()
            object.__setattr__(self, field.name, tensor)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        before = [getattr(self, f.name) for f in fields(self)]
        after = [change(tensor) for tensor in before]
        if all(new is old for new, old in zip(after, before, strict=True)):
            return self
        if after[0].ndim != 2 or after[0].dtype != before[0].dtype:
            return type(self)(*after)
        made = object.__new__(type(self))  # unchecked: the values were checked before
        for field, tensor in zip(fields(self), after, strict=True):
            object.__setattr__(made, field.name, tensor)
        return made


@dataclass(frozen=True, eq=False, repr=False)
class Gaussians(Embeddings):
    """Isotropic Gaussians: image i is N(mean[i], var[i] * I).

    Args:
        mean: (N, D), a tensor in float32 or float64, an array or a list.
        var: Variances, (N,), positive.

    Raises:
        InvalidArgument: If type, shape or range is wrong.
    """

    var: Tensor
    family: ClassVar[str] = "gaussian"

    if TYPE_CHECKING:

        def __init__(self, mean: ArrayLike, var: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        self._convert()
        _check_mean(self.mean)
        _check_spread("var", self.var, self.mean, SMALLEST_SPREAD, LARGEST_SPREAD)

    @property
    def spread(self) -> Tensor:
        return self.var


@dataclass(frozen=True, eq=False, repr=False)
class VonMisesFisher(Embeddings):
    """Distributions on the unit sphere: image i is von Mises-Fisher(mean[i], kappa[i]).

    Args:
        mean: Unit vectors, (N, D), a tensor in float32 or float64, an array or a list.
        kappa: Concentrations, (N,), positive; larger is sharper.

    Raises:
        InvalidArgument: If type, shape or range is wrong.
    """

    kappa: Tensor
    family: ClassVar[str] = "von-mises-fisher"

    if TYPE_CHECKING:

        def __init__(self, mean: ArrayLike, kappa: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        self._convert()
        _check_mean(self.mean)
        _require(self.dim >= 2, "mean", "at least 2 dimensions on a sphere", str(self.dim))
        _check_spread("kappa", self.kappa, self.mean, 1 / LARGEST_SPREAD, 1 / SMALLEST_SPREAD)
        if len(self) > 0:
            lengths = self.mean.detach().norm(dim=1)
            worst = float((lengths - 1).abs().max())
            _require(
                worst <= UNIT_TOLERANCE,
                "mean",
                "unit vectors",
                f"a length that is off by {worst:.3g}",
                fix="normalise it: torch.nn.functional.normalize(mean, dim=1)",
            )

    @property
    def spread(self) -> Tensor:
        return self.kappa

    @property
    def var(self) -> Tensor:
        return 1 / self.kappa

    def as_gaussians(self) -> Gaussians:
        """Return Gaussians with the same means and variance 1/kappa, as the paper treats vMF."""
        return Gaussians(self.mean, self.var)


FAMILIES: dict[str, type[Embeddings]] = {c.family: c for c in (Gaussians, VonMisesFisher)}


def check_pair(first: Embeddings, second: Embeddings, names: str = "query, gallery") -> None:
    """Both must be embeddings of one family and one dimension."""
    for name, batch in zip(names.split(", "), (first, second), strict=True):
        check_embeddings(name, batch)
    if type(first) is not type(second):
        kinds = f"{type(first).__name__} and {type(second).__name__}"
        raise InvalidArgument(names, expected="embeddings of one family", got=kinds)
    if first.dim != second.dim:
        dims = f"{first.dim} and {second.dim} dimensions"
        raise InvalidArgument(names, expected="embeddings of one dimension", got=dims)


def check_embeddings(name: str, batch: object) -> None:
    if not isinstance(batch, Embeddings):
        raise InvalidArgument(
            name,
            expected="Gaussians or VonMisesFisher",
            got=type(batch).__name__,
            fix="wrap means and variances: surefind.Gaussians(mean, var)",
        )


def _require(condition: bool, argument: str, expected: str, got: str, fix: str | None = None) -> None:
    if not condition:
        raise InvalidArgument(argument, expected=expected, got=got, fix=fix)


def _check_mean(mean: Tensor) -> None:
    _require(mean.ndim == 2, "mean", "shape (N, D)", f"shape {tuple(mean.shape)}")
    got = str(mean.dtype).removeprefix("torch.")
    _require(got in ("float32", "float64"), "mean", "float32 or float64", got)
    _require(mean.shape[1] >= 1, "mean", "at least one dimension", "none")
    if len(mean) > 0:
        low, high = (float(end) for end in mean.detach().aminmax())
        _require(
            low >= -LARGEST and high <= LARGEST,
            "mean",
            f"finite numbers of at most {LARGEST:g}",
            f"values from {low:g} to {high:g}",
            fix="check the model for divergence, or find the row: torch.isfinite(mean).all(dim=1)",
        )


def _check_spread(argument: str, spread: Tensor, mean: Tensor, smallest: float, largest: float) -> None:
    _require(spread.ndim == 1, argument, "shape (N,)", f"shape {tuple(spread.shape)}")
    expected = f"{len(mean)} values, one per mean"
    _require(len(spread) == len(mean), argument, expected, str(len(spread)))
    for name in ("dtype", "device"):
        want, got = getattr(mean, name), getattr(spread, name)
        _require(want == got, argument, f"the {name} of mean, {want}", str(got))
    if len(spread) > 0:
        low, high = (float(end) for end in spread.detach().aminmax())
        _require(
            smallest <= low * (1 + _ROUNDING) and high <= largest * (1 + _ROUNDING),
            argument,
            f"positive numbers from {smallest:g} to {largest:g}",
            f"values from {low:g} to {high:g}",
            fix="make it positive with softplus plus a small floor",
        )


def _read(path: Path) -> tuple[str, dict[str, Tensor]]:
    """Family and tensors of a file; where there is only a variance, kappa is 1/var."""
    kind = "npz" if path.suffix.lower() == ".npz" else "safetensors"
    try:
        if kind == "safetensors":
            with safe_open(path, framework="pt") as file:
                family = (file.metadata() or {}).get("family", "unknown")
                return family, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        family = str(arrays.get("family", "unknown"))
        spread = "kappa" if family == VonMisesFisher.family else "var"
        if spread not in arrays and "var" in arrays:
            arrays[spread] = 1 / arrays["var"]
        names = {"mean": "vectors", spread: spread}
        return family, {name: as_tensor(name, arrays[its]) for name, its in names.items() if its in arrays}
    except FileNotFoundError as error:
        raise InvalidFile(f"{path} does not exist") from error
    except (OSError, SafetensorError, BadZipFile, EOFError, ValueError) as error:
        raise InvalidFile(f"{path} is not a readable {kind} file: {error}") from error
