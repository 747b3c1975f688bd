"""The calibration that an index uses: read once, and compared with the one on the disk."""

from pathlib import Path
from typing import NamedTuple

from surefind.errors import InvalidFile
from surefind.search.confidence.calibrated import Calibrated
from surefind.search.confidence.saving import FILE, has_calibration, read_calibration
from surefind.search.once import Once
from surefind.storage import Missing, read_small


class _Read(NamedTuple):
    content: bytes | None  # of its JSON, as it was just before
    calibrated: Calibrated | None


class HeldCalibration:
    """Of the rows of one model in one order; several threads may ask for it."""

    def __init__(self, folder: Path, *, fingerprint: str, ranking: str) -> None:
        self._folder, self._fingerprint, self._ranking = folder, fingerprint, ranking
        self._read = Once(self._from_disk)

    def get(self) -> Calibrated | None:
        """None while there is none on the disk."""
        return self._read.get().calibrated

    def again(self) -> "HeldCalibration":
        """What is on the disk when it is first asked for."""
        return HeldCalibration(self._folder, fingerprint=self._fingerprint, ranking=self._ranking)

    def newest(self) -> "HeldCalibration | None":
        """What is on the disk, read in full; none if it is what is in use."""
        if self._content() == self._read.get().content:
            return None
        newer = self.again()
        newer.get()
        return newer

    def _from_disk(self) -> _Read:
        # If another takes its place in between, the content is too old: it is read once more then.
        content = self._content()
        if not has_calibration(self._folder):
            return _Read(content, None)
        return _Read(
            content,
            read_calibration(self._folder, fingerprint=self._fingerprint, ranking=self._ranking),
        )

    def _content(self) -> bytes | None:
        try:
            return read_small(self._folder / FILE)
        except Missing:
            return None
        except InvalidFile:
            return b""  # whoever reads it is told why
