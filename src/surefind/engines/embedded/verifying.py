"""Everything that is wrong with an index, read in full from the disk."""

from collections.abc import Iterator

import numpy as np

from surefind.engines.embedded.checked_files import checked_files
from surefind.engines.embedded.damage import Damaged
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.loading import load, read_manifest
from surefind.engines.embedded.manifest import Manifest
from surefind.engines.embedded.recovery import read_pointer, read_store
from surefind.engines.embedded.selecting import parsed
from surefind.engines.embedded.snapshot import Part, Snapshot
from surefind.engines.where import check_metadata
from surefind.errors import InvalidArgument, InvalidFile

_BLOCK = 16_384  # rows


def problems(folder: Folder) -> list[str]:
    """Sentences that name the files; none if all is well."""
    found: list[str] = []
    try:
        store = read_store(folder)
    except InvalidFile as error:
        found.append(error.problem)
        store = None
    try:
        pointer = read_pointer(folder)
        manifest, sha256 = read_manifest(folder, pointer.version, sha256=pointer.sha256)
    except InvalidFile as error:
        return [*found, error.problem]
    if store is not None and manifest.store != store:
        found.append(f"{folder.store} and {folder.manifest(manifest.version)} differ")
    found += _file_problems(folder, manifest)
    if not found:
        try:
            found += _content_problems(load(folder, manifest, sha256=sha256))
        except InvalidFile as error:
            found.append(error.problem)
    return [*found, *_parent_problems(folder, manifest, already=found)]


def _parent_problems(folder: Folder, manifest: Manifest, *, already: list[str]) -> list[str]:
    """Of the version that would be served if the newest were damaged."""
    if manifest.parent is None:
        return []
    try:
        parent, _ = read_manifest(folder, manifest.parent)
    except InvalidFile as error:
        return [error.problem]
    return [problem for problem in _file_problems(folder, parent) if problem not in already]


def _file_problems(folder: Folder, manifest: Manifest) -> list[str]:
    found = []
    with checked_files(folder, manifest.files) as files:
        for kept in manifest.files:
            try:
                files.get(kept)
            except InvalidFile as error:
                found.append(error.problem)
    return found


def _content_problems(snapshot: Snapshot) -> Iterator[str]:
    yield from snapshot.troubles
    keys = [part.segment.key for part in snapshot.parts]
    if keys and len(np.unique(np.concatenate(keys))) < sum(map(len, keys)):
        yield "a key belongs to two rows"
    for part in snapshot.parts:
        yield from (f"{part.segment.path}: {problem}" for problem in _part_problems(part))
    yield from _repeated_ids(snapshot)


def _part_problems(part: Part) -> Iterator[str]:
    segment, piece = part.segment, part.piece
    for start in range(0, len(segment), _BLOCK):
        if not np.isfinite(segment.vectors[start : start + _BLOCK]).all():
            yield f"a vector of rows {start} to {start + _BLOCK} is not finite"
    if (segment.var.min(), segment.var.max()) != (piece.least_var, piece.most_var):
        yield "its variances are not within the bounds that were written down"
    if not (np.isfinite(segment.var).all() and (segment.var > 0).all()):
        yield "a variance is not positive and finite"
    try:
        check_metadata(list(parsed(segment.metadata)))
    except (ValueError, TypeError, AttributeError, RecursionError, InvalidArgument):
        yield "its metadata is not readable"
    try:
        for row in range(len(segment)):
            segment.id_of(row)
    except Damaged:
        yield "an id is not a text"
    if not segment.all_can_be_found():
        yield "an id or a digest does not lead to its row"


def _repeated_ids(snapshot: Snapshot) -> Iterator[str]:
    """An id must name one living row: hashes say where to look, texts decide."""
    hashes = [part.segment.columns().id_hash[part.rows()] for part in snapshot.parts]
    if not hashes:
        return
    every = np.concatenate(hashes)
    part_of = np.repeat(np.arange(len(hashes)), [len(some) for some in hashes])
    row_of = np.concatenate([part.rows() for part in snapshot.parts])
    values, count = np.unique(every, return_counts=True)
    for value in values[count > 1]:
        places = np.flatnonzero(every == value)
        ids = [snapshot.parts[part_of[at]].segment.id_of(int(row_of[at])) for at in places]
        if len(set(ids)) < len(ids):
            yield f"the id {ids[0]!r} belongs to {len(ids)} rows"
