"""Which array or column of a file is which: by what they are usually called."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from surefind.errors import InvalidFile
from surefind.validation import nearest

VECTORS = ("vectors", "embeddings", "x", "features", "means", "vector", "embedding", "mean")
LABELS = ("labels", "label", "y", "classes", "class", "targets", "target")
IDS = ("ids", "id", "paths", "path", "names", "name", "files", "file")


class Wanted(NamedTuple):
    """Names given by the user; None: the usual ones."""

    vectors: str | None = None
    labels: str | None = None
    ids: str | None = None


def choose(
    path: Path,
    role: str,
    given: str | None,
    usual: tuple[str, ...],
    described: Mapping[str, str],
    *,
    fitting: Collection[str] = (),
) -> str | None:
    """The name that has this role among those described, if any has it.

    `fitting` are those that could have it by their shape; they decide between several usual ones.
    """
    if given is not None:
        if given not in described:
            near = nearest(given, described)
            raise InvalidFile(
                f"{path}: {role}={given!r} is not among {listed(described)}",
                fix=f"did you mean {near!r}?" if near else f"use one of them as {role}=",
            )
        return given
    called = [name for name in described if name.lower() in usual]
    if len(called) > 1:
        called = [name for name in called if name in fitting] or called
    if len(called) > 1:
        raise InvalidFile(
            f"{path}: several could be the {role}, of {listed(described)}",
            fix=f"name the right one with {role}=",
        )
    return called[0] if called else None


def choose_vectors(
    path: Path, given: str | None, described: Mapping[str, str], *, fitting: Collection[str]
) -> str:
    """The name of the vectors, which must be there: as usual, or the only one that fits."""
    name = choose(path, "vectors", given, VECTORS, described, fitting=fitting)
    if name is not None:
        return name
    if len(fitting) != 1:
        raise InvalidFile(
            f"{path}: no vectors, by any usual name, among {listed(described)}",
            fix="name them with vectors=: numbers, one row per vector",
        )
    return next(iter(fitting))


def listed(described: Mapping[str, str]) -> str:
    """Every name with what it is."""
    return ", ".join(f"{name} {what}" for name, what in described.items()) or "nothing"
