"""Folder of an index: its description, the model in it, and the image files it was made from."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from surefind.confidence.calibration import read_calibration
from surefind.engines.filters import Metadata
from surefind.engines.registry import is_url, without_password
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.storage import Documents, dump_checksummed_json, load_checksummed_json, write_whole

if TYPE_CHECKING:
    from surefind.confidence.variance_heads import VarianceHeads
    from surefind.encoders.image_encoder import ImageEncoder

SCHEMA = 2
EMBEDDED = "faiss"
UPGRADE_FILE = "upgrade.db"
ROOT = "picture root "  # prefix of the document names
MISSING = "its file is not there any more"
OUTSIDE = "its file is outside the folders that the index was made from"
NOT_A_FILE = "its path does not lead to a plain file"
CHANGED = "its file has changed since it was indexed"
# Never block on a pipe, never follow a link created in the meantime.
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class IndexFolder:
    """Paths in the folder, and its description `index.json`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "index.json"
        self.model = path / "model"
        self.upgrade = path / "upgrade"  # only of an index of vectors
        # Calibration and image folders; in the file of the embedded engine, if used.
        self.documents = Documents(path / "store" / "index.db")

    def place(self, engine: str) -> str:
        """URL of the engine, or its path in this folder."""
        if is_url(engine):
            return engine
        if engine != EMBEDDED:
            expected = "faiss, pgvector://... or milvus://..."
            raise InvalidArgument("engine", expected=expected, got=repr(engine))
        return str(self.path / "store")

    def exists(self) -> bool:
        return self.file.exists()

    def write(self, engine: str) -> None:
        write_whole(self.file, dump_checksummed_json({"schema": SCHEMA, "engine": without_password(engine)}))

    def read(self) -> str:
        """Read the description; return the engine."""
        if not self.exists():
            raise InvalidFile(
                f"{self.path} holds no index: {self.file.name} is missing",
                fix="name a folder that `surefind index` made; if that was stopped, run it again",
            )
        facts = load_checksummed_json(self.file)
        if (schema := facts.get("schema")) != SCHEMA:
            problem = f"{self.file} has schema {schema!r}, this version reads {SCHEMA}"
            fix = "open it with the version of surefind that wrote it"
            if schema == 1:
                problem = f"{self.path} was written by surefind 0.1, whose format is no longer read"
                fix = "make it anew in another folder: surefind index IMAGES -o INDEX"
            raise InvalidFile(problem, fix=fix)
        return str(facts["engine"])


INT8 = "-int8-"  # in the fingerprints of int8 models


def load_encoder(folder: IndexFolder, fingerprint: str) -> ImageEncoder:
    """Load the model in the folder; raise InvalidArgument if it did not make the rows."""
    _check_has_model(folder, fingerprint)
    if INT8 in fingerprint:
        from surefind.encoders.onnx import OnnxEncoder

        encoder: ImageEncoder = OnnxEncoder.load(folder.model, "int8")
    else:
        from surefind.encoders.encoder import Encoder

        encoder = Encoder.load(folder.model)
    check_same_model(encoder.fingerprint, fingerprint, whose=str(folder.model))
    return encoder


def encoder_of(folder: Path, runtime: str) -> ImageEncoder:
    """Load the model of an index with this runtime."""
    place = IndexFolder(folder)
    place.read()  # it is an index
    _check_has_model(place)
    from surefind.encoders.open import open_encoder

    return open_encoder(place.model, runtime=runtime)


def upgrade_heads(folder: IndexFolder, fingerprint: str) -> VarianceHeads | None:
    """Variance heads of an index of upgraded vectors; None if it has none."""
    if not folder.upgrade.exists():
        return None
    documents = Documents(folder.upgrade / UPGRADE_FILE)
    return read_calibration(documents, fingerprint=fingerprint, ranking="mean").heads


def check_same_model(fingerprint: str, of_the_index: str, *, whose: str) -> None:
    """Raise InvalidArgument if the fingerprints differ."""
    if fingerprint != of_the_index:
        raise InvalidArgument(
            "model",
            expected=f"the one that made the index, {_short(of_the_index)}",
            got=f"{_short(fingerprint)} ({whose})",
            fix=_remedy(fingerprint, of_the_index),
        )


def _check_has_model(folder: IndexFolder, fingerprint: str = "") -> None:
    if folder.model.exists():
        return
    from surefind.encoders.open import CALLABLE

    if fingerprint.startswith(CALLABLE):
        name, _, dim = fingerprint.removeprefix(CALLABLE).rpartition(":")
        made_by = f"from_callable(function, dim={dim}, name={name!r})"
        raise InvalidFile(
            f"{folder.path} was made by {name!r}, a function that is not saved with it",
            fix=f"Index.open({str(folder.path)!r}, encoder=surefind.encoders.{made_by})",
        )
    raise InvalidFile(
        f"{folder.path} has no model: its embeddings came from elsewhere",
        fix="search with embeddings, or open it with encoder=...",
    )


def _short(fingerprint: str) -> str:
    """Shortened, with the suffix of an export."""
    from surefind.encoders.open import CALLABLE

    if fingerprint.startswith(CALLABLE):
        return fingerprint
    model, dash, rest = fingerprint.partition("-")
    return model[:12] + dash + rest


def _remedy(fingerprint: str, of_the_index: str) -> str:
    same_weights = fingerprint.partition("-")[0] == of_the_index.partition("-")[0]
    if same_weights and INT8 in of_the_index:
        if INT8 in fingerprint:
            return "it was exported anew: make a new index with this export"
        return "the index is of its int8 export: --runtime onnx-int8"
    if same_weights and INT8 in fingerprint:
        return "an int8 export needs a new index: add --runtime onnx-int8 and another -o INDEX"
    return "use that model, or make an index with this one"


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
