"""Original image files of an index, read only from the folders they were added from."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from surefind.engines.filters import Metadata
from surefind.errors import SurefindError
from surefind.storage import Documents

ROOT = "picture root "  # prefix of the document names
MISSING = "its file is not there any more"
OUTSIDE = "its file is outside the folders that the index was made from"
NOT_A_FILE = "its path does not lead to a plain file"
CHANGED = "its file has changed since it was indexed"
# Never block on a pipe, never follow a link created in the meantime.
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PictureUnavailable(SurefindError):
    """Image file that cannot be read; the message has the reason but no path."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"there is no picture: {why}",
            fix="put the file back; or index its folder again, with --replace if it changed",
        )
        self.why = why


def read_picture(
    id: str,  # noqa: A002
    metadata: Metadata,
    digest: str,
    *,
    roots: Sequence[Path],
    max_bytes: int,
) -> bytes:
    """Return the bytes of an image file with this digest ("": any).

    Tried are the recorded path, then the id in each root. Ids and paths are untrusted: nothing
    outside the roots, after resolving links, is ever opened.
    """
    inside = [Path(os.path.realpath(root)) for root in roots]
    why = MISSING
    path = metadata.get("path")
    names = [path, id] if isinstance(path, str) else [id]
    # root / name is the name itself if it is absolute.
    for candidate in dict.fromkeys(root / name for name in names for root in inside):
        try:
            return _read(candidate, digest, roots=inside, max_bytes=max_bytes)
        except PictureUnavailable as error:
            why = error.why if why == MISSING else why
    raise PictureUnavailable(why)


def _read(candidate: Path, digest: str, *, roots: Sequence[Path], max_bytes: int) -> bytes:
    try:
        path = Path(os.path.realpath(candidate, strict=True))
        if not any(path.is_relative_to(root) for root in roots):
            raise PictureUnavailable(OUTSIDE)
        if not stat.S_ISREG(path.lstat().st_mode):  # before opening, which may have side effects
            raise PictureUnavailable(NOT_A_FILE)
        with open(os.open(path, _OPEN_FLAGS), "rb") as file:  # noqa: PTH123 - a descriptor
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise PictureUnavailable(NOT_A_FILE)
            content = file.read(max_bytes + 1) if found.st_size <= max_bytes else None
        if content is None or len(content) > max_bytes:
            raise PictureUnavailable(f"its file has more than {max_bytes:,} bytes")
    except OSError as error:
        gone = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
        why = MISSING if gone else f"its file cannot be read: {error.strerror}"
        raise PictureUnavailable(why) from error
    except ValueError as error:  # invalid name
        raise PictureUnavailable(MISSING) from error
    if digest and hashlib.sha256(content).hexdigest() != digest:
        raise PictureUnavailable(CHANGED)
    return content


def known_roots(documents: Documents) -> tuple[Path, ...]:
    """Return the folders that images were added from; () if they cannot be read."""
    try:
        return tuple(sorted(Path(os.fsdecode(its)) for its in documents.read(ROOT).values()))
    except SurefindError:  # reported by `verify`
        return ()


def remember_roots(documents: Documents, roots: Iterable[Path]) -> None:
    """Record folders, with links resolved.

    A failure to write is ignored: images can be added, but not shown until recorded later.
    """
    new = set()
    for root in roots:
        with suppress(ValueError):  # invalid name
            new.add(Path(os.path.realpath(root)))
    if new - set(known_roots(documents)):
        contents = map(os.fsencode, new)
        with suppress(SurefindError):
            documents.write({ROOT + hashlib.sha256(its).hexdigest(): its for its in contents})
