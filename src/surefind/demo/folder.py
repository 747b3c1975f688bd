"""The folder of a demo: what is where, and whether it may be used."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import surefind
from surefind.demo.size import DemoSize
from surefind.errors import InvalidFile
from surefind.files import make_writable, write_whole

NEW_FOLDER = "name a new folder: surefind demo -o FOLDER"


@dataclass(frozen=True)
class DemoFolder:
    """Paths inside; `demo.json` says that the folder is a demo's, and how it was made."""

    path: Path

    @property
    def file(self) -> Path:
        return self.path / "demo.json"

    @property
    def glyphs(self) -> Path:
        """The data, where it is not of the usual size."""
        return self.path / "glyphs"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def baseline(self) -> Path:
        return self.path / "baseline"

    @property
    def index(self) -> Path:
        return self.path / "index"

    @property
    def report(self) -> Path:
        return self.path / "report"

    @property
    def queries(self) -> Path:
        return self.path / "queries"

    @property
    def vectors(self) -> Path:
        """What the baseline made of the glyphs, as a file that anybody could have brought."""
        return self.path / "vectors.npz"

    @property
    def vectors_model(self) -> Path:
        return self.path / "vectors-model"

    def claim(self, size: DemoSize, *, seed: int) -> None:
        """Make the folder this demo's own; one that is somebody else's is refused."""
        now = {"surefind": surefind.__version__, "seed": seed, "size": asdict(size)}
        if self.file.is_file():
            self._check_same(now)
            make_writable(self.path)
            return
        if self.path.exists() and not self._is_empty():
            raise InvalidFile(f"{self.path} is no demo, and is not empty", fix=NEW_FOLDER)
        make_writable(self.path)
        write_whole(self.file, (json.dumps(now, indent=1) + "\n").encode())

    def _check_same(self, now: dict[str, Any]) -> None:
        try:
            then = json.loads(self.file.read_text())
            changed = [key for key, value in now.items() if then.get(key) != value]
        except (OSError, ValueError, AttributeError) as error:
            raise InvalidFile(f"cannot read {self.file}: {error}", fix=NEW_FOLDER) from error
        for key in changed:
            raise InvalidFile(
                f"{self.path} was made with another {key}: {then.get(key)}, not {now[key]}",
                fix=f"{NEW_FOLDER}, or delete this one",
            )

    def _is_empty(self) -> bool:
        """But for hidden files, such as what a run left that was killed in its first moment."""
        return self.path.is_dir() and all(path.name[0] == "." for path in self.path.iterdir())
