"""One process's hold on an index: the version that it sees, and its turns at writing."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

from surefind.engines.embedded.changing import Change, changed
from surefind.engines.embedded.damage import Damaged
from surefind.engines.embedded.folder import Folder
from surefind.engines.embedded.lock import writer_lock
from surefind.engines.embedded.publishing import clean
from surefind.engines.embedded.recovery import Opened, open_newest, read_pointer
from surefind.engines.embedded.repairing import repair
from surefind.engines.embedded.snapshot import Snapshot
from surefind.engines.embedded.verifying import problems
from surefind.engines.engine import EngineError
from surefind.errors import InvalidFile

_LOOKS = 20  # at a folder that changes meanwhile
_ROOM = "free some space or make the folder writable, then do it again"


class Session:
    """Searches in other threads go on with the version that they began with."""

    def __init__(self, folder: Folder, opened: Opened | None = None) -> None:
        self.folder = folder
        self._lock = Lock()  # of `_opened`, never held for long
        self._opened: Opened | None = opened or open_newest(folder)

    @property
    def snapshot(self) -> Snapshot:
        return self._now.snapshot

    @property
    def troubles(self) -> tuple[str, ...]:
        return self._now.troubles

    def refresh(self) -> bool:
        """See what other writers did; True if anything changed."""
        before = self._now
        after = self._changed_since(before)
        with self._lock:
            if after and self._opened is before:  # else a writer in another thread knows better
                self._opened = after
        return after is not None

    def newest(self) -> "Session | None":
        """Another hold, on what other writers left; none if nothing changed."""
        after = self._changed_since(self._now)
        return None if after is None else Session(self.folder, after)

    @contextmanager
    def writing(self) -> Iterator[Snapshot]:
        """The newest version, to be changed by nobody else while the block runs."""
        base = self.snapshot
        try:
            with writer_lock(self.folder):
                base = self._base()
                try:
                    yield base
                except BaseException:
                    with suppress(InvalidFile, EngineError):
                        self._clean(self._reopen())
                    raise
        except OSError as error:
            same = self.snapshot.sha256 == base.sha256
            state = "it is as it was" if same else "the change may not outlast a power cut"
            raise EngineError(
                f"cannot write the index in {self.folder.path}: {error.strerror}; {state}",
                fix=_ROOM,
            ) from error

    def change(self, base: Snapshot, change: Change) -> None:
        """Within `writing`: the next version, which is what this process sees from then on."""
        after = changed(self.folder, base, change)
        if after is not base:
            self._see(Opened(after, ()))
            clean(self.folder, after.manifest)

    def repair(self) -> list[str]:
        try:
            with writer_lock(self.folder):
                done = repair(self.folder)
                self._clean(self._reopen())
        except OSError as error:
            raise EngineError(
                f"cannot repair the index in {self.folder.path}: {error.strerror}", fix=_ROOM
            ) from error
        return done

    def verify(self) -> list[str]:
        """What is wrong on the disk; looked at again if a writer was at work meanwhile."""
        for _ in range(_LOOKS):
            before = self._pointed()
            found = problems(self.folder)
            if not found or self._pointed() == before:
                break
        return found

    def close(self) -> None:
        self._opened = None

    @property
    def _now(self) -> Opened:
        opened = self._opened
        if opened is None:
            raise EngineError("the index was closed", fix="open it again")
        return opened

    def _base(self) -> Snapshot:
        """What the next change starts from, with leftovers of a killed writer removed."""
        opened = self._reopen()
        if opened.troubles:
            raise EngineError(
                "the index can be read but not written: " + "; ".join(opened.troubles),
                fix="make the version that is served the newest one: call repair()",
            )
        self._clean(opened)
        return opened.snapshot

    def _clean(self, opened: Opened) -> None:
        """Never while anything is damaged: what looks needless then may be all that is left."""
        if not opened.troubles:
            clean(self.folder, opened.snapshot.manifest)

    def _changed_since(self, before: Opened) -> Opened | None:
        with suppress(Damaged):
            if not before.troubles and read_pointer(self.folder).sha256 == before.snapshot.sha256:
                return None
        after = self._newest()
        same = (after.snapshot.sha256, after.troubles) == (before.snapshot.sha256, before.troubles)
        return None if same else after

    def _newest(self) -> Opened:
        """What is on the disk; what is open already is not read again."""
        now = self.snapshot
        opened = open_newest(self.folder, known=now.parts)
        if opened.snapshot.manifest.store != now.manifest.store:
            raise EngineError(
                f"another index was made in {self.folder.path} meanwhile", fix="open it again"
            )
        return opened

    def _reopen(self) -> Opened:
        return self._see(self._newest())

    def _see(self, opened: Opened) -> Opened:
        with self._lock:
            self._opened = opened
        return opened

    def _pointed(self) -> str | None:
        try:
            return read_pointer(self.folder).sha256
        except InvalidFile:
            return None
