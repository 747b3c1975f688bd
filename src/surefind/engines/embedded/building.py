"""The parts of a new version: taken over, marked, or written."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from surefind.engines.embedded.columns import Columns
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.gathering import Chosen, Gathered
from surefind.engines.embedded.graph import Graph, graphs_possible, size_of_graph, write_graph
from surefind.engines.embedded.manifest import Store
from surefind.engines.embedded.merging import too_many_dead
from surefind.engines.embedded.segment import Segment
from surefind.engines.embedded.segment_writing import planned, write_segment
from surefind.engines.embedded.selecting import Mask
from surefind.engines.embedded.snapshot import Part
from surefind.engines.embedded.writing import write_dead

GRAPH_FROM = 8_192  # rows of a segment that gets the graph that was asked for
AUTO_FROM = 100_000  # rows of a segment that gets one if none was asked for


class Member(NamedTuple):
    """What may go into a segment: a part of the older version, or the rows that are new."""

    part: Part | None
    new: Columns | None
    alive: Mask | None  # after the change; None if that is all
    living: int

    @property
    def touched(self) -> bool:
        return self.part is None or self.alive is not self.part.alive

    def chosen(self) -> Chosen:
        columns = self.new if self.part is None else self.part.segment.columns()
        assert columns is not None
        rows = np.arange(len(columns.key)) if self.alive is None else np.flatnonzero(self.alive)
        return Chosen(columns, rows)


class Step(NamedTuple):
    """How one part of the new version comes about."""

    members: Sequence[Member]
    write: bool  # a new segment
    graph: str | None  # a new graph

    @property
    def rows(self) -> int:
        return sum(member.living for member in self.members)

    def gathered(self) -> Gathered:
        return Gathered([member.chosen() for member in self.members])

    def size(self, width: int) -> int:
        """Bytes that it will write, roughly."""
        segment = planned(self.gathered()).size if self.write else self.rows // 4
        return segment + (size_of_graph(self.graph, self.rows, width) if self.graph else 0)


def step_for(members: Sequence[Member], store: Store, *, compact: bool) -> Step:
    first, rows = members[0], sum(member.living for member in members)
    write = len(members) > 1 or first.part is None
    if first.part is not None and not write:
        dead = first.living < len(first.part.segment)
        bad = first.touched and too_many_dead(len(first.part.segment), first.living)
        write = (compact and dead) or bad
    merged = compact or len(members) > 1 or (write and first.part is not None)
    there = first.part is not None and not write and first.part.piece.graph is not None
    return Step(members, write, None if there else _graph(store.kind, rows, merged=merged))


def build(folder: Folder, step: Step, *, width: int) -> Part:
    """Whatever is new is on the disk when this returns, but in no version yet."""
    part = step.members[0].part
    if part is None or step.write:
        piece = write_segment(folder, step.gathered())
        path = folder.file(piece.segment.name)
        with path.open("rb") as file:
            part = Part(piece, Segment(path, file, rows=piece.rows, width=width), None, None)
    elif step.members[0].touched:
        part = _with_dead(folder, part, step.members[0])
    return part if step.graph is None else _with_graph(folder, part, step.graph)


def _graph(kind: str, rows: int, *, merged: bool) -> str | None:
    """Which graph a segment of so many rows gets, if any."""
    if kind == "flat" or not graphs_possible():
        return None
    if kind == "auto":
        return "hnsw" if merged and rows >= AUTO_FROM else None
    return kind if rows >= GRAPH_FROM else None


def _with_dead(folder: Folder, part: Part, member: Member) -> Part:
    assert member.alive is not None
    dead = write_dead(folder, np.packbits(~member.alive, bitorder="little").tobytes())
    now = {"dead": dead, "removed": len(part.segment) - member.living}
    return Part(part.piece.model_copy(update=now), part.segment, member.alive, part.graph)


def _with_graph(folder: Folder, part: Part, kind: str) -> Part:
    kept = write_graph(folder, part.segment, kind)
    path = folder.file(kept.name)
    with path.open("rb") as file:
        graph = Graph(kept, file, path=path, segment=part.segment)
    return Part(part.piece.model_copy(update={"graph": kept}), part.segment, part.alive, graph)
