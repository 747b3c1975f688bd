"""Read vectors, ids and labels from .npz, .npy and .parquet files, and check them."""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from surefind.confidence.class_table import is_missing
from surefind.embeddings import LARGEST, POINT_VAR, Gaussians
from surefind.errors import InvalidArgument, InvalidFile
from surefind.validation import nearest

if TYPE_CHECKING:
    from torch import Tensor

KNOWN_NAMES = {  # recognised names of arrays and columns
    "vectors": ("vectors", "embeddings", "x", "features", "means", "vector", "embedding", "mean"),
    "labels": ("labels", "label", "y", "classes", "class", "targets", "target"),
    "ids": ("ids", "id", "paths", "path", "names", "name", "files", "file"),
}
BROKEN = (
    OSError, TypeError, ValueError, EOFError, RuntimeError, MemoryError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
Values: TypeAlias = "NDArray[np.floating] | Tensor"
Arrays = dict[str, NDArray[Any] | str]  # str: why an array cannot be used


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors of a file."""

    values: NDArray[np.float32]  # (N, D)
    ids: tuple[str, ...]  # unique
    labels: tuple[str, ...]  # or empty

    def __len__(self) -> int:
        return len(self.values)


def read_vectors(
    path: str | Path, *, labels: str | None = None, ids: str | None = None, vectors: str | None = None
) -> Vectors:
    """Read a .npz, .npy or .parquet file: finite vectors with unique ids (row numbers if it has none).

    The labels of NAME.npy are read from NAME.labels.npy or NAME.labels.txt (one per line).

    Args:
        path: The file.
        labels: Name of the array or column of labels, if not a common one.
        ids: Name of that of ids.
        vectors: Name of that of vectors.

    Raises:
        InvalidFile: The file cannot be read or holds no usable vectors.
    """
    path = Path(path)
    readers = {".npz": _read_npz, ".npy": _read_npy, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidFile(
            f"{path}: vectors are read from {', '.join(readers)}, not {path.suffix or 'this'}",
            fix="convert it: np.savez('vectors.npz', vectors=vectors, labels=labels)",
        )
    if not path.is_file():
        raise InvalidFile(f"{path} is not there or not a file")
    try:
        arrays = reader(path)
    except BROKEN as error:  # pyarrow errors are subclasses
        raise InvalidFile(f"{path} cannot be read as {path.suffix}: {error}") from error
    try:
        return _vectors_of(path, arrays, {"vectors": vectors, "labels": labels, "ids": ids})
    except InvalidArgument as error:
        raise InvalidFile(f"{path}: {error.problem}", fix=error.fix) from error


def _read_npz(path: Path) -> Arrays:
    arrays: Arrays = {}
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        for name in file.files:
            try:
                arrays[name] = file[name]
            except ValueError as error:
                if "allow_pickle" not in str(error):
                    raise
                arrays[name] = "Python objects, which are never read since they can run code"
    return arrays


def _read_npy(path: Path) -> Arrays:
    # Memory-mapped: a header with a false size allocates nothing.
    arrays: Arrays = {"vectors": np.lib.format.open_memmap(path, mode="r")}
    numbers, lines = (path.with_name(f"{path.stem}.labels{ending}") for ending in (".npy", ".txt"))
    if numbers.exists() and lines.exists():
        raise InvalidFile(f"labels are in both {numbers} and {lines}", fix="remove one")
    if numbers.exists():
        arrays["labels"] = np.lib.format.open_memmap(numbers, mode="r")
    elif lines.exists():
        try:
            arrays["labels"] = np.array([line.strip() for line in lines.read_text("utf-8").splitlines()])
        except UnicodeDecodeError as error:
            raise InvalidFile(f"{lines} cannot be read as text in UTF-8: {error}") from error
    return arrays


def _read_parquet(path: Path) -> Arrays:
    from surefind.datasets.table import pyarrow_package

    compute = pyarrow_package("pyarrow.compute", path)
    types = pyarrow_package("pyarrow", path).types
    # Without partitioning: a folder named label=cat adds no column.
    table = pyarrow_package("pyarrow.parquet", path).read_table(path, partitioning=None)
    arrays: Arrays = {}
    for name in table.column_names:
        column = table[name]
        kind = column.type
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            lengths = {*compute.list_value_length(column).to_pylist()}
            values = compute.list_flatten(column)
            even = len(lengths) == 1 and None not in lengths and not values.null_count
            ragged = "lists of different lengths or with missing values"
            arrays[name] = values.to_numpy().reshape(len(column), -1) if even else ragged
        elif types.is_floating(kind) or types.is_integer(kind):
            arrays[name] = column.to_numpy()
        else:
            arrays[name] = np.array(column.to_pylist(), dtype=object)
    return arrays


def _vectors_of(path: Path, arrays: Arrays, names: Mapping[str, str | None]) -> Vectors:
    shapes = {name: () if isinstance(its, str) else its.shape for name, its in arrays.items()}
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    main = _choose("vectors", names["vectors"], arrays, fitting=tables)
    main = tables[0] if main is None and len(tables) == 1 else main
    rows = shapes[main][:1] if main else ()
    columns = [name for name, shape in shapes.items() if shape in (rows, (*rows, 1))]
    labels, ids = (_choose(role, names[role], arrays, fitting=columns) for role in ("labels", "ids"))
    if main is not None:
        values = _taken(arrays, main)
    else:
        numbers = [
            its
            for name, its in arrays.items()
            if name not in (labels, ids) and not isinstance(its, str) and its.dtype.kind in "fiu"
        ]
        if path.suffix.lower() != ".parquet" or tables or not numbers:
            raise InvalidFile(
                f"{path}: no vectors, by any common name, among {_listed(arrays)}",
                fix="save them as an array `vectors`, one row per vector",
            )
        values = np.column_stack(numbers)  # one column per dimension
    checked = as_vectors(values)
    empty = np.flatnonzero((checked == 0).all(axis=1))
    if len(empty):
        raise InvalidFile(f"{path}: {len(empty)} of {len(checked)} vectors are all zeros (first: row {empty[0]})")
    texts = [] if labels is None else as_texts(_taken(arrays, labels), len(checked))
    check_all_labelled(texts)
    keys = [f"row {row}" for row in range(len(checked))]
    if ids is not None:
        keys = as_texts(_taken(arrays, ids), len(checked), what="ids")
    (twice, count), *_ = Counter(keys).most_common(1)
    if count > 1:
        raise InvalidArgument("ids", expected="a different one for each vector", got=f"{twice!r} {count} times")
    return Vectors(checked, tuple(keys), tuple(texts))


def _choose(role: str, given: str | None, arrays: Arrays, *, fitting: Collection[str]) -> str | None:
    """Return the array with this role: the given name, or a common one, if any.

    Of several common names, one with a fitting shape is chosen.
    """
    if given is not None:
        if given not in arrays:
            near = nearest(given, arrays)
            raise InvalidArgument(
                role,
                expected=f"one of {_listed(arrays)}",
                got=repr(given),
                fix=f"did you mean {near!r}?" if near else None,
            )
        return given
    called = [name for name in arrays if name.lower() in KNOWN_NAMES[role]]
    if len(called) > 1:
        called = [name for name in called if name in fitting] or called
    if len(called) > 1:
        raise InvalidArgument(
            role, expected="one name", got=f"several in {_listed(arrays)}", fix=f"name it with {role}="
        )
    return called[0] if called else None


def _taken(arrays: Arrays, name: str) -> NDArray[Any]:
    array = arrays[name]
    if isinstance(array, str):
        raise InvalidArgument(
            name, expected="plain numbers or text", got=array, fix="save them with dtype='float32' or dtype=str"
        )
    return array


def _listed(arrays: Arrays) -> str:
    """List names, types and shapes."""
    kinds = {name: f"({its})" if isinstance(its, str) else f"{its.dtype} {its.shape}" for name, its in arrays.items()}
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items()) or "nothing"


def as_vectors(vectors: Values, dim: int | None = None) -> NDArray[np.float32]:
    """Return vectors as (N, D) float32; raise InvalidArgument unless they are finite numbers."""
    given = _float32(vectors)
    if given.ndim != 2 or dim not in (None, given.shape[1]) or not given.size:
        raise InvalidArgument(
            "vectors", expected=f"vectors of one model, (N, {'D' if dim is None else dim})", got=f"shape {given.shape}"
        )
    bad = np.flatnonzero(~(np.abs(given) <= LARGEST).all(axis=1))  # NaN too
    if len(bad):
        raise InvalidArgument(
            "vectors",
            expected=f"finite numbers of at most {LARGEST:g}",
            got=f"{len(bad)} of {len(given)} rows with others (first: row {bad[0]})",
        )
    return given


def as_points(vectors: Values, dim: int | None = None) -> Gaussians:
    """Return vectors (N, D) as embeddings without variance."""
    mean = as_vectors(vectors, dim)
    return Gaussians(mean, np.full(len(mean), POINT_VAR))


def as_texts(values: Sequence[object] | NDArray[Any] | None, count: int, *, what: str = "labels") -> list[str]:
    """Return one text for each vector, "" where it is missing (nan, None or nothing)."""
    if values is not None and hasattr(values, "reshape"):  # an array or a tensor
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


def _float32(vectors: Any) -> NDArray[np.float32]:
    """Convert to float32; read-only arrays are copied."""
    got = f"{type(vectors).__name__} of {getattr(vectors, 'dtype', None)}"
    if hasattr(vectors, "layout"):  # a tensor
        kind = str(vectors.dtype)
        if str(vectors.layout) == "torch.strided" and "complex" not in kind and "bool" not in kind:
            return np.asarray(vectors.detach().cpu().float())
        got += f", {vectors.layout}"
    else:
        try:
            array = np.asarray(vectors)
        except ValueError as error:  # rows of different lengths
            array, got = np.empty(0, object), str(error)
        if array.dtype.kind in "fiu":
            with np.errstate(over="ignore"):  # checked by the caller
                return np.require(array, np.float32, ["C", "W"])
    raise InvalidArgument("vectors", expected="an array or tensor of real numbers, (N, D)", got=got)
