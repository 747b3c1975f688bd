"""The size of a demo, its folder, and its stages."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import surefind
from surefind.datasets.glyphs import GlyphSettings
from surefind.errors import InvalidFile
from surefind.files import make_writable, write_whole
from surefind.training.recipe import Recipe

NEW_FOLDER = "name a new folder: surefind demo -o FOLDER"
STAGES = (
    "drawing glyphs",
    "training the Bayesian encoder",
    "training the triplet baseline",
    "indexing glyphs of new classes",
    "calibrating",
    "evaluating, writing the report",
    "upgrading the baseline's vectors, as if they were yours",
    "asking three queries",
)

Tell = Callable[[str, int, int], None]  # which part of the stage, how much of it, out of how much
Watch = Callable[[str], AbstractContextManager[Tell]]  # shows a stage while it runs


@dataclass(frozen=True)
class DemoSize:
    """How much the demo does: the usual size takes two minutes on two cores; tests do with less."""

    classes: int = GlyphSettings.classes
    per_class: int = GlyphSettings.per_class
    foreign: int = GlyphSettings.foreign
    steps: int = 400  # of training, of either encoder
    batch_classes: int = 32
    ladder: int = 40  # queries that the report corrupts step by step

    @property
    def is_usual_data(self) -> bool:
        usual = GlyphSettings()
        mine = (self.classes, self.per_class, self.foreign)
        return mine == (usual.classes, usual.per_class, usual.foreign)

    def recipe(self, name: str, *, seed: int) -> Recipe:
        """Return a recipe for glyphs with fewer steps."""
        changes = {
            "seed": seed,
            "batch.classes": self.batch_classes,
            "schedule.steps": self.steps,
            "schedule.validate_every": max(1, self.steps // 5),
            "schedule.checkpoint_every": max(1, self.steps // 10),  # lost by an interruption
        }
        return Recipe.read(f"{name}+glyphs", [f"{key}={value}" for key, value in changes.items()])


class DemoFolder:
    """Paths inside; `demo.json` says that the folder is a demo's, and how it was made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "demo.json"
        self.glyphs = path / "glyphs"  # the data, where it is not of the usual size
        self.model = path / "model"
        self.baseline = path / "baseline"
        self.index = path / "index"
        self.report = path / "report"
        self.queries = path / "queries"
        self.vectors = path / "vectors.npz"  # of the baseline, as anybody could bring them
        self.vectors_model = path / "vectors-model"

    def claim(self, size: DemoSize, *, seed: int) -> None:
        """Make the folder this demo's own; one that is somebody else's is refused."""
        now = {"surefind": surefind.__version__, "seed": seed, "size": asdict(size)}
        if not self.file.is_file():
            hidden = self.path.is_dir() and all(p.name[0] == "." for p in self.path.iterdir())
            if self.path.exists() and not hidden:  # a run killed at once may leave a hidden file
                raise InvalidFile(f"{self.path} is no demo, and is not empty", fix=NEW_FOLDER)
            make_writable(self.path)
            write_whole(self.file, (json.dumps(now, indent=1) + "\n").encode())
            return
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
        make_writable(self.path)


@dataclass
class Stage:
    """A stage while it runs; it says what it found."""

    tell: Tell
    figure: str = ""
    reused: bool = False


@dataclass(frozen=True)
class StageDone:
    """One stage, after it."""

    number: int
    name: str
    figure: str  # the main thing it found
    seconds: float
    reused: bool  # from an earlier run

    @property
    def title(self) -> str:
        return title(self.number)


def title(number: int) -> str:
    """Return the title of a stage.

    >>> title(5)
    '5/8 calibrating'
    """
    return f"{number}/{len(STAGES)} {STAGES[number - 1]}"


@contextmanager
def unwatched(_: str) -> Iterator[Tell]:
    yield lambda *_: None


class Stages:
    """Hands out the stages one after the other, and remembers them."""

    def __init__(self, watch: Watch = unwatched, ended: Callable[[StageDone], None] | None = None):
        self.watch, self.ended = watch, ended
        self.done: list[StageDone] = []

    @contextmanager
    def next(self) -> Iterator[Stage]:
        number, began = len(self.done) + 1, perf_counter()
        with self.watch(title(number)) as tell:
            stage = Stage(tell)
            yield stage
        seconds = round(perf_counter() - began, 3)
        done = StageDone(number, STAGES[number - 1], stage.figure, seconds, stage.reused)
        self.done.append(done)
        if self.ended is not None:
            self.ended(done)
