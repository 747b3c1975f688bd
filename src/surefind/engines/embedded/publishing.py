"""The steps by which a version becomes the newest, and the removal of what no version needs."""

import shutil
from contextlib import suppress

from surefind.engines.embedded.damage import Damaged
from surefind.engines.embedded.folder import Folder, is_leftover
from surefind.engines.embedded.loading import read_manifest
from surefind.engines.embedded.manifest import Manifest, Pointer, Store, dump
from surefind.engines.embedded.sealed import seal
from surefind.engines.embedded.writing import write_file
from surefind.engines.engine import EngineError
from surefind.errors import InvalidFile

RESERVE = 2**20  # bytes that stay free: manifests, and what the file system needs itself


def publish(folder: Folder, manifest: Manifest) -> str:
    """Make a version whose files are on the disk the newest; the checksum of its manifest.

    Until the very last rename the older version is the newest one, untouched.
    """
    sha256 = write_file(folder.manifest(manifest.version), seal(dump(manifest)))
    pointer = Pointer(version=manifest.version, sha256=sha256)
    write_file(folder.current, seal(dump(pointer)))
    return sha256


def write_store(folder: Folder, store: Store) -> None:
    write_file(folder.store, seal(dump(store)))


def clean(folder: Folder, manifest: Manifest) -> None:
    """Remove what neither this newest version nor its parent needs, if that is possible.

    Only who holds the lock may do it. Whoever has older files open keeps them.
    """
    kept = [manifest]
    with suppress(InvalidFile, OSError):
        if manifest.parent is not None:
            with suppress(Damaged):  # what is damaged is of no use to anybody
                kept.append(read_manifest(folder, manifest.parent)[0])
        needed = {folder.store, folder.current}
        for version in kept:
            needed.add(folder.manifest(version.version))
            needed.update(folder.file(file.name) for file in version.files)
        for path in folder.files():
            if path not in needed or is_leftover(path):
                with suppress(OSError):
                    path.unlink()


def check_room(folder: Folder, size: int) -> None:
    """Refuse to begin what cannot end well."""
    free = shutil.disk_usage(folder.path).free
    if size + RESERVE > free:
        raise EngineError(
            f"{folder.path} has {free / 2**20:.0f} MB of free space, "
            f"{(size + RESERVE) / 2**20:.0f} MB are needed; the index is as it was",
            fix="free some space, then do it again",
        )
