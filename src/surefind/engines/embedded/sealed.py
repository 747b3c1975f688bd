"""Small JSON files that carry their own checksum, so that any change to them is seen."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefind.engines.embedded.damage import Damaged, unreadable

LARGEST = 64 * 2**20  # bytes; nothing of that size is ever written
_SEAL = "checksum"


def seal(facts: Mapping[str, Any]) -> bytes:
    return _written({**facts, _SEAL: _checksum(facts)})


def unseal(path: Path, content: bytes) -> dict[str, Any]:
    """What was sealed; `path` is named in errors."""
    try:
        facts = json.loads(content)
        sealed = facts.pop(_SEAL)
        # the whole text is compared: JSON has several ways to write the same facts
        if sealed == _checksum(facts) and content == _written({**facts, _SEAL: sealed}):
            return dict(facts)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(path, "it is not the JSON that was written") from error
    raise Damaged(path, "its checksum is wrong")


def read_small(path: Path) -> bytes:
    """A file of at most `LARGEST` bytes."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    if len(content) > LARGEST:
        raise Damaged(path, "it is too large")
    return content


def _written(facts: Mapping[str, Any]) -> bytes:
    return (json.dumps(facts, sort_keys=True, allow_nan=False) + "\n").encode()


def _checksum(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(_written(facts)).hexdigest()
