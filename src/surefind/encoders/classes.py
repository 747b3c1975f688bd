"""Which classes an encoder was trained with: by a hash, as names may be private."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from surefind.errors import InvalidFile
from surefind.files import write_whole

FILE = "classes.json"


def class_hashes(labels: Iterable[object]) -> frozenset[str]:
    """What is kept of class names."""
    return frozenset(hashlib.sha256(str(label).encode()).hexdigest()[:16] for label in set(labels))


def write_classes(folder: Path, codes: frozenset[str]) -> None:
    if codes:
        write_whole(folder / FILE, (json.dumps(sorted(codes)) + "\n").encode())
    else:
        (folder / FILE).unlink(missing_ok=True)


def read_classes(folder: Path) -> frozenset[str]:
    """Nothing where it was never written down."""
    path = folder / FILE
    try:
        codes = json.loads(path.read_bytes())
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
        raise _damaged(path)
    return frozenset(codes)


def _damaged(path: Path) -> InvalidFile:
    return InvalidFile(
        f"{path} is not the list of classes that was written",
        fix="restore it, or delete it: it only warns of calibrating with classes trained with",
    )
