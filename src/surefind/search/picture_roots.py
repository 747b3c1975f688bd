"""The folders that the images of an index were added from: all that may be shown lies there."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from surefind.errors import SurefindError
from surefind.files import write_whole
from surefind.storage import Damaged, read_small, seal, unseal, writer_lock

SCHEMA = 1


def read_roots(file: Path) -> tuple[Path, ...]:
    """What was written; nothing where nothing was, as in an index of vectors."""
    if not file.exists():
        return ()
    facts = unseal(file, read_small(file))
    roots = facts.get("roots")
    if facts.get("schema") != SCHEMA or not isinstance(roots, list):
        raise Damaged(file, f"it is not a list of folders of schema {SCHEMA}")
    return tuple(Path(root) for root in roots)


def known_roots(file: Path) -> tuple[Path, ...]:
    """None if the file is damaged: `read_roots` says so, to those who verify."""
    try:
        return read_roots(file)
    except SurefindError:
        return ()


def remember_roots(file: Path, roots: Iterable[Path]) -> None:
    """Add folders, with all links followed; nothing is written if they are known.

    Where it cannot be written images can be added all the same: they have no picture until the
    next time.
    """
    new = _resolved(roots)
    if not new - set(known_roots(file)):
        return
    with suppress(SurefindError, OSError), writer_lock(file.parent):
        every = sorted(str(root) for root in new.union(known_roots(file)))
        write_whole(file, seal({"schema": SCHEMA, "roots": every}))


def _resolved(roots: Iterable[Path]) -> set[Path]:
    found = set()
    for root in roots:
        with suppress(ValueError):  # no folder has such a name
            found.add(Path(os.path.realpath(root)))
    return found
