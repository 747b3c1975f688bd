"""NumPy files, of which no pickle is ever read and no header believed before its file is sized."""

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from surefind.errors import InvalidFile

TIGHTEST = 1032  # bytes that deflate can make of one
BROKEN = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


class Header(NamedTuple):
    """What a NumPy array says of itself."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def read_npy(path: Path) -> NDArray[np.generic]:
    """The one array of a .npy file."""
    try:
        with path.open("rb") as file:
            _check(path, _header(file, path.stat().st_size))
        array: NDArray[np.generic] = np.load(path, allow_pickle=False)
    except BROKEN as error:
        raise _broken(path, error) from error
    return array


def npz_headers(path: Path) -> dict[str, Header]:
    """Name, shape and type of every array of a .npz file."""
    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".npy"):
                    size = min(member.file_size, TIGHTEST * member.compress_size)
                    with archive.open(member) as file:
                        found[member.filename.removesuffix(".npy")] = _header(file, size)
    except BROKEN as error:
        raise _broken(path, error) from error
    return found


def read_npz(path: Path, name: str, header: Header) -> NDArray[np.generic]:
    """One array of a .npz file, whose header was read before."""
    _check(f"{path}, array {name}", header)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            array: NDArray[np.generic] = arrays[name]
    except BROKEN as error:
        raise _broken(path, error) from error
    return array


def _header(file: IO[bytes], size: int) -> Header:
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = npy.read_array_header_2_0(file)
    else:
        raise ValueError(f"unknown version {version} of the .npy format")
    promised = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and promised > size:
        raise ValueError(f"it promises {promised} bytes of {dtype} {shape}, the file has {size}")
    return Header(shape, dtype)


def _check(where: Path | str, header: Header) -> None:
    if header.dtype.hasobject:
        raise InvalidFile(
            f"{where}: holds Python objects, which are never read since they can run code",
            fix="save plain numbers or text: np.savez(file, vectors=np.asarray(vectors, "
            "dtype='float32'), labels=np.asarray(labels, dtype=str))",
        )


def _broken(path: Path, error: BaseException) -> InvalidFile:
    if isinstance(error, FileNotFoundError | IsADirectoryError):
        return InvalidFile(f"{path} is not there or not a file", fix="check the path")
    return InvalidFile(
        f"{path} cannot be read as {path.suffix}: {error}",
        fix="write it again with np.savez(file, vectors=..., labels=...)",
    )
