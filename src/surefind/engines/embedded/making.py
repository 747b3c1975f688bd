"""A new, empty index in a folder."""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefind import files
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.lock import writer_lock
from surefind.engines.embedded.manifest import Manifest, Store
from surefind.engines.embedded.publishing import clean, publish, write_store
from surefind.engines.embedded.recovery import is_unfinished
from surefind.engines.engine import KINDS
from surefind.engines.space import Space
from surefind.errors import InvalidArgument, InvalidFile
from surefind.validation import check_choice


def make(folder: Folder, space: Space, facts: Mapping[str, Any], *, kind: str) -> None:
    """Whenever this stops before its last step, there is no index yet, and it can be done again."""
    check_choice("kind", kind, ("auto", *KINDS))
    store = Store.model_validate(
        {
            "identity": secrets.token_hex(16),
            "family": space.family,
            "dim": space.dim,
            "ranking": space.ranking,
            "kind": kind,
            "facts": _as_json(facts),
        }
    )
    try:
        for path in (folder.path, folder.versions, folder.segments):
            _make_folder(path)
        with writer_lock(folder):
            if not is_unfinished(folder):
                raise InvalidFile(
                    f"there is an index in {folder.path} already",
                    fix="open it, or choose another folder",
                )
            manifest = Manifest(version=0, parent=None, next_key=0, store=store, pieces=[])
            publish(folder, manifest)
            clean(folder, manifest)
            write_store(folder, store)
    except OSError as error:
        raise InvalidFile(
            f"cannot make an index in {folder.path}: {error.strerror}", fix=files.ROOM
        ) from error


def _make_folder(path: Path) -> None:
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        files.sync_folder(path.parent)


def _as_json(facts: Mapping[str, Any]) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads(json.dumps(dict(facts), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            "facts", expected="what JSON can hold", got=str(error), fix="use plain values"
        ) from error
    return kept
