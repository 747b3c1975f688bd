"""The newest version of an index that is whole, and what is wrong with newer ones."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from surefind.engines.embedded.damage import RESTORE, Damaged
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.loading import load, read_manifest
from surefind.engines.embedded.manifest import Pointer, Store, parse_record
from surefind.engines.embedded.sealed import read_small, unseal
from surefind.engines.embedded.snapshot import Part, Snapshot
from surefind.engines.engine import EngineError
from surefind.errors import InvalidFile

_ATTEMPTS = 50  # to open a version before a writer has cleaned it away


class Opened(NamedTuple):
    """A version that can be served; with troubles it is not written to."""

    snapshot: Snapshot
    troubles: tuple[str, ...]


def read_pointer(folder: Folder) -> Pointer:
    path = folder.current
    return parse_record(path, Pointer, unseal(path, read_small(path)))


def read_store(folder: Folder) -> Store:
    path = folder.store
    return parse_record(path, Store, unseal(path, read_small(path)))


def open_newest(folder: Folder, *, known: Iterable[Part] = ()) -> Opened:
    """The newest version that is whole.

    If files are missing while the pointer has moved on, then a writer has cleaned up meanwhile:
    the reader looks again. It never locks.
    """
    known = tuple(known)
    for _ in range(_ATTEMPTS):
        before = _pointed(folder)
        try:
            opened = _newest_whole(folder, known)
        except OSError as error:
            raise InvalidFile(
                f"cannot read {folder.path}: {error.strerror}", fix="make the folder readable"
            ) from error
        except InvalidFile:
            if _pointed(folder) == before:
                raise
            continue
        if not opened.troubles or _pointed(folder) == before:
            return opened
    raise EngineError(
        f"{folder.path} changes more quickly than it can be opened", fix="try again later"
    )


def is_unfinished(folder: Folder) -> bool:
    """Whether the making of an index was stopped here, or never begun: it holds no rows."""
    return not folder.store.exists() and not any(folder.version_numbers())


def _newest_whole(folder: Folder, known: tuple[Part, ...]) -> Opened:
    if is_unfinished(folder):
        raise InvalidFile(
            f"{folder.path} holds no index, or one whose making was stopped",
            fix="check the path, or create the index",
        )
    troubles: list[str] = []
    store = pointer = None
    try:
        store = read_store(folder)
    except Damaged as damage:
        troubles.append(damage.problem)
    try:
        pointer = read_pointer(folder)
    except Damaged as damage:
        troubles.append(damage.problem)
    for version, sha256 in _candidates(folder, pointer):
        try:
            manifest, found = read_manifest(folder, version, sha256=sha256)
            if store is not None and manifest.store != store:
                raise Damaged(folder.manifest(version), "it belongs to another index")
            snapshot = load(folder, manifest, sha256=found, known=known)
        except Damaged as damage:
            troubles.append(damage.problem)
            continue
        return Opened(snapshot, _told(snapshot, troubles, pointer))
    raise InvalidFile(
        f"no version of the index in {folder.path} is whole: " + "; ".join(troubles), fix=RESTORE
    )


def _candidates(folder: Folder, pointer: Pointer | None) -> Iterator[tuple[int, str | None]]:
    """The version that is pointed to, then older ones; all, if it is not known which that is."""
    if pointer is not None:
        yield pointer.version, pointer.sha256
    for version in folder.version_numbers():
        if pointer is None or version < pointer.version:
            yield version, None


def _told(snapshot: Snapshot, troubles: list[str], pointer: Pointer | None) -> tuple[str, ...]:
    troubles = [*troubles, *snapshot.troubles]
    served = snapshot.manifest.version
    if pointer is None:
        troubles.append(f"version {served} is served, the newest that is whole")
    elif served != pointer.version:
        troubles.append(f"version {served} is served, without what {pointer.version} changed")
    elif troubles:
        troubles.append(f"version {served} is served, with all of its rows")
    return tuple(troubles)


def _pointed(folder: Folder) -> bytes | None:
    try:
        return read_small(folder.current)
    except InvalidFile:
        return None
