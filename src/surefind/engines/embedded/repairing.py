"""The last whole version of a damaged index made the newest one again."""

from surefind.engines.embedded.damage import Damaged
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.manifest import Manifest
from surefind.engines.embedded.publishing import publish, write_store
from surefind.engines.embedded.recovery import open_newest, read_pointer


def repair(folder: Folder) -> list[str]:
    """Sentences that say what was wrong and what was done; none if all was well.

    Only who holds the lock may do it.
    """
    opened = open_newest(folder)
    if not opened.troubles:
        return []
    good = opened.snapshot.manifest
    version = max(good.version, _pointed(folder), *folder.version_numbers()) + 1
    manifest = Manifest(
        version=version,
        # one that needs a damaged graph is no version to fall back on
        parent=None if opened.snapshot.troubles else good.version,
        next_key=good.next_key,
        store=good.store,
        pieces=[
            part.piece if part.graph else part.piece.model_copy(update={"graph": None})
            for part in opened.snapshot.parts
        ],
    )
    write_store(folder, good.store)
    publish(folder, manifest)
    done = f"version {version} was made from version {good.version} and is the newest"
    lost = "; a graph was lost, compact() builds it again" if opened.snapshot.troubles else ""
    return [*opened.troubles, done + lost]


def _pointed(folder: Folder) -> int:
    try:
        return read_pointer(folder).version
    except Damaged:
        return 0
