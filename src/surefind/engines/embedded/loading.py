"""A version of an index, opened: every file is read and compared with its checksum first."""

import hashlib
from collections.abc import Iterable

import numpy as np

from surefind.engines.embedded.checked_files import CheckedFiles, checked_files
from surefind.engines.embedded.damage import Damaged
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.graph import Graph, graphs_possible
from surefind.engines.embedded.manifest import Manifest, Piece, parse_record
from surefind.engines.embedded.sealed import read_small, unseal
from surefind.engines.embedded.segment import Segment
from surefind.engines.embedded.selecting import Mask
from surefind.engines.embedded.snapshot import Part, Snapshot


def read_manifest(
    folder: Folder, version: int, *, sha256: str | None = None
) -> tuple[Manifest, str]:
    """The manifest of a version, exactly as it was written, and its checksum."""
    path = folder.manifest(version)
    content = read_small(path)
    found = hashlib.sha256(content).hexdigest()
    if sha256 not in (None, found):
        raise Damaged(path, "it is not the one that CURRENT names")
    manifest = parse_record(path, Manifest, unseal(path, content))
    if manifest.version != version:
        raise Damaged(path, f"it is the manifest of version {manifest.version}")
    return manifest, found


def load(
    folder: Folder, manifest: Manifest, *, sha256: str, known: Iterable[Part] = ()
) -> Snapshot:
    """Open all of a version; what is open already was checked when it was opened."""
    same = {part.piece: part for part in known if _has_its_graph(part)}
    segments = {part.piece.segment: part for part in known}
    new = [piece for piece in manifest.pieces if piece not in same]
    troubles: list[str] = []
    with checked_files(folder, (file for piece in new for file in piece.files)) as files:
        for piece in new:
            before = segments.get(piece.segment)
            width = manifest.store.space.width
            segment = before.segment if before else open_segment(files, piece, width=width)
            graph = before.graph if before and before.piece.graph == piece.graph else None
            try:
                graph = graph or open_graph(files, piece, segment=segment)
            except Damaged as damage:  # it only makes searches quicker
                troubles.append(damage.problem)
            same[piece] = Part(piece, segment, _alive(files, piece), graph)
    parts = tuple(same[piece] for piece in manifest.pieces)
    _check_keys(folder, manifest, parts)
    return Snapshot(manifest, sha256, parts, tuple(troubles))


def open_segment(files: CheckedFiles, piece: Piece, *, width: int) -> Segment:
    file = files.get(piece.segment)
    return Segment(files.path(piece.segment), file, rows=piece.rows, width=width)


def open_graph(files: CheckedFiles, piece: Piece, *, segment: Segment) -> Graph | None:
    if piece.graph is None or not graphs_possible():
        return None
    file = files.get(piece.graph)
    return Graph(piece.graph, file, path=files.path(piece.graph), segment=segment)


def _has_its_graph(part: Part) -> bool:
    """Else it is looked for again: its file may have been restored, or is still damaged."""
    return part.graph is not None or part.piece.graph is None or not graphs_possible()


def _alive(files: CheckedFiles, piece: Piece) -> Mask | None:
    if piece.dead is None:
        if piece.removed:
            raise Damaged(files.path(piece.segment), "which rows were removed is not known")
        return None
    path = files.path(piece.dead)
    if piece.dead.bytes != -(-piece.rows // 8):
        raise Damaged(path, "it is not a bitmap of its segment")
    bits = np.frombuffer(files.get(piece.dead).read(), np.uint8)
    dead = np.unpackbits(bits, count=piece.rows, bitorder="little").view(bool)
    if np.count_nonzero(dead) != piece.removed:
        raise Damaged(path, f"it does not name {piece.removed} rows")
    return ~dead


def _check_keys(folder: Folder, manifest: Manifest, parts: tuple[Part, ...]) -> None:
    """A key that is given out twice would mix up rows."""
    if any(part.segment.key[-1] >= manifest.next_key for part in parts):
        raise Damaged(folder.manifest(manifest.version), "its next key is taken")
