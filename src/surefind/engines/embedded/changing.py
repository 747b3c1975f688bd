"""A new version out of an older one: rows added, rows removed, segments put together."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from surefind.engines.embedded.building import Member, Step, build, step_for
from surefind.engines.embedded.columns import Columns, Ints
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.manifest import Manifest
from surefind.engines.embedded.merging import Group, groups
from surefind.engines.embedded.publishing import check_room, publish
from surefind.engines.embedded.snapshot import Snapshot
from surefind.engines.engine import EngineError


@dataclass(frozen=True)
class Change:
    """What is to become of a version."""

    new: Columns | None = None
    dead: Mapping[int, Ints] = field(default_factory=dict)  # rows to remove, by part
    compact: bool = False


def changed(folder: Folder, base: Snapshot, change: Change) -> Snapshot:
    """Write and publish the version that follows; the older one if there is nothing to do."""
    width = base.manifest.store.space.width
    steps = _steps(folder, base, change)
    parts = [build(folder, step, width=width) for step in steps]
    parts.sort(key=lambda part: int(part.segment.key[0]))
    if parts == list(base.parts):
        return base
    added = 0 if change.new is None else len(change.new.key)
    manifest = Manifest(
        version=base.manifest.version + 1,
        parent=base.manifest.version,
        next_key=base.manifest.next_key + added,
        store=base.manifest.store,
        pieces=[part.piece for part in parts],
    )
    return Snapshot(manifest, publish(folder, manifest), tuple(parts))


def _steps(folder: Folder, base: Snapshot, change: Change) -> list[Step]:
    """What to write, as long as there is room for it."""
    members = [member for member in _members(base, change) if member.living]
    alone: list[Group] = [(number,) for number in range(len(members))]
    plan = groups([member.living for member in members])
    if change.compact:
        plan = [tuple(range(len(members)))] if members else []
    for attempt in (plan, alone):
        steps = [
            step_for(
                [members[number] for number in group], base.manifest.store, compact=change.compact
            )
            for group in attempt
        ]
        try:
            size = sum(step.size(base.manifest.store.space.width) for step in steps)
            check_room(folder, size)
        except EngineError:
            if change.compact or attempt == alone:
                raise
            continue  # merging can wait until there is room for it
        break
    return steps


def _members(base: Snapshot, change: Change) -> list[Member]:
    members = []
    for number, part in enumerate(base.parts):
        alive, living = part.alive, part.piece.living
        if len(gone := change.dead.get(number, ())):
            alive = np.ones(len(part.segment), bool) if alive is None else alive.copy()
            alive[gone] = False
            living = int(np.count_nonzero(alive))
        members.append(Member(part, None, alive, living))
    if change.new is not None:
        members.append(Member(None, change.new, None, len(change.new.key)))
    return members
