"""A calibration in a folder: JSON that names the files it belongs with, by their digests."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError
from safetensors.torch import load, save

from surefind.errors import InvalidFile, SurefindError
from surefind.files import make_writable, write_whole
from surefind.search.confidence.calibration import Calibrated, Calibration, Origin
from surefind.search.confidence.evidence import COLUMNS
from surefind.search.confidence.variance_heads import VarianceHeads
from surefind.search.neighbourhoods import Neighbourhoods
from surefind.settings import parse
from surefind.storage import Missing, read_small, seal, unseal, writer_lock

SCHEMA = 1
FILE = "calibration.json"
AGAIN = "calibrate again: surefind calibrate INDEX DATA"

T = TypeVar("T")


def write_calibration(folder: Path, calibrated: Calibrated) -> None:
    """Replace what is there; whenever this stops, the folder holds the old or the new, whole."""
    make_writable(folder)
    parts = {"neighbourhoods": calibrated.neighbourhoods.to_bytes()}
    if calibrated.heads is not None:
        parts["doubt"] = save(calibrated.heads.tensors())
    names = {what: f"{what}-{_digest(content)}.safetensors" for what, content in parts.items()}
    facts = {"schema": SCHEMA, "files": names, "calibration": asdict(calibrated.calibration)}
    with writer_lock(folder):
        for what, content in parts.items():
            write_whole(folder / names[what], content)
        write_whole(folder / FILE, seal(facts))
        for old in folder.glob("*.safetensors"):
            if old.name not in names.values():
                with suppress(OSError):  # the new one is in place; the next time will remove it
                    old.unlink()


def stored_content(folder: Path) -> bytes | None:
    """What the calibration's file holds, to compare; none where there is no calibration."""
    try:
        return read_small(folder / FILE)
    except Missing:
        return None
    except InvalidFile:
        return b""  # `read_calibration` says why


def read_calibration(folder: Path, *, fingerprint: str, ranking: str) -> Calibrated:
    """What `write_calibration` wrote, if it is for the rows of that model in that order."""
    path = folder / FILE
    content = _content(path)
    while True:
        try:
            return _opened(path, content, fingerprint=fingerprint, ranking=ranking)
        except InvalidFile:
            now = _content(path)
            if now == content:
                raise
            content = now  # another process put a new one in its place meanwhile


def _content(path: Path) -> bytes:
    try:
        return read_small(path)
    except SurefindError as error:
        raise InvalidFile(error.problem, fix=AGAIN) from error


def _opened(path: Path, content: bytes, *, fingerprint: str, ranking: str) -> Calibrated:
    try:
        facts = unseal(path, content)
    except SurefindError as error:
        raise InvalidFile(error.problem, fix=AGAIN) from error
    if facts.get("schema") != SCHEMA:
        raise InvalidFile(
            f"{path} has schema {facts.get('schema')!r}, this version reads {SCHEMA}", fix=AGAIN
        )
    calibration = parse(Calibration, facts["calibration"], where=str(path))
    check_origin(calibration.origin, fingerprint, ranking)
    if unknown := set(calibration.model.names) - COLUMNS.keys():
        raise InvalidFile(
            f"{path} was made with evidence that this version does not know: {min(unknown)}",
            fix=AGAIN,
        )
    files = {what: path.with_name(name) for what, name in facts["files"].items()}
    heads = None
    if "doubt" in files:
        heads = _read(files["doubt"], lambda content: VarianceHeads.from_tensors(load(content)))
    neighbourhoods = _read(files["neighbourhoods"], Neighbourhoods.from_bytes)
    return Calibrated(calibration, neighbourhoods, heads)


def check_origin(origin: Origin, fingerprint: str, ranking: str) -> None:
    """Refuse the calibration of rows of another model, or in another order."""
    if (origin.fingerprint, origin.ranking) != (fingerprint, ranking):
        raise InvalidFile(
            f"this is the calibration of another index: model {origin.fingerprint[:12]} by "
            f"{origin.ranking} distance, this index has {fingerprint[:12]} by {ranking}",
            fix=AGAIN,
        )


def _read(path: Path, make: Callable[[bytes], T]) -> T:
    """From a file that is the one its name says."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidFile(f"cannot read {path}: {error.strerror}", fix=AGAIN) from error
    if _digest(content) != path.stem.partition("-")[2]:
        raise InvalidFile(f"{path} is damaged", fix=AGAIN)
    try:
        return make(content)
    except (SafetensorError, KeyError, ValueError) as error:
        raise InvalidFile(f"{path} cannot be read: {error}", fix=AGAIN) from error


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
