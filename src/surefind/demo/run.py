"""The demo from its first stage to its last."""

import math
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefind.datasets import open_dataset
from surefind.datasets.glyphs import TABLE, draw_glyphs, glyphs_folder
from surefind.datasets.splits import Splits
from surefind.demo.comparison import Row, compare
from surefind.demo.queries import Question, Tally, ask
from surefind.demo.setup import (
    NEW_FOLDER,
    DemoFolder,
    DemoSize,
    StageDone,
    Stages,
    Watch,
    unwatched,
)
from surefind.encoders.encoder import Encoder
from surefind.errors import InvalidFile
from surefind.files import whole_file
from surefind.images.catalog import Catalog
from surefind.reports.encoded import embed_catalog
from surefind.reports.evaluate import Request, evaluate
from surefind.reports.folder import ReportFolder
from surefind.reports.reproduce.run import finished_evaluation, is_trained
from surefind.search.confidence.calibrate import Wishes
from surefind.search.confidence.calibration import Calibration
from surefind.search.folder import IndexFolder
from surefind.search.index import Index
from surefind.search.sentences import digits, promised
from surefind.training.folder import RunFolder
from surefind.training.log import read_log
from surefind.training.loop import train
from surefind.upgrade.upgrade import Upgrade, calibrate
from surefind.upgrade.vectors import read_vectors

WISHES = Wishes(precision=0.75, foreign_rate=0.05)  # what so short a training can guarantee
KEPT_OUT = 3  # of each class: with one, too few are called a match to see how many rightly
TRY_YOURS = "surefind train photos/ -o model"


@dataclass(frozen=True)
class DemoResult:
    """Everything the demo found; the files are in the folder."""

    folder: DemoFolder
    seed: int
    precision: float  # at which queries are answered
    stages: tuple[StageDone, ...]
    rows: tuple[Row, ...]
    reading: tuple[str, ...]  # how to read the rows
    questions: tuple[Question, ...]
    tally: Tally
    calibration: Calibration

    @property
    def open_page(self) -> str:
        """The command that shows the page."""
        folder = self.folder
        shown = ("--samples", str(folder.queries), "--report", str(folder.report))
        return shlex.join(("surefind", "serve", str(folder.index), *shown))

    def as_dict(self) -> dict[str, Any]:
        """Fit for JSON: a number that is none becomes null."""
        folder = self.folder
        table = [
            {
                name: None if isinstance(value, float) and math.isnan(value) else value
                for name, value in asdict(row).items()
            }
            for row in self.rows
        ]
        return {
            "output": str(folder.path),
            "seed": self.seed,
            "seconds": round(sum(stage.seconds for stage in self.stages), 1),
            "stages": [asdict(stage) for stage in self.stages],
            "precision": self.precision,
            "table": table,
            "reading": list(self.reading),
            "queries": [question.as_dict() for question in self.questions],
            "asked": asdict(self.tally),
            "paths": {
                "model": str(folder.model),
                "baseline": str(folder.baseline),
                "index": str(folder.index),
                "report": str(folder.report / "report.html"),
                "queries": str(folder.queries),
                "vectors": str(folder.vectors),
                "vectors_model": str(folder.vectors_model),
            },
            "next": [self.open_page, TRY_YOURS],
        }


def run_demo(
    output: str | Path,
    *,
    size: DemoSize | None = None,
    seed: int = 0,
    watch: Watch = unwatched,
    ended: Callable[[StageDone], None] | None = None,
) -> DemoResult:
    """Draw glyphs, train two encoders, index, calibrate, evaluate, search, compare.

    `output` becomes the demo's folder. What an earlier run with the same settings finished there
    is used again. `watch` shows a stage while it runs, `ended` is told of each that is done.
    """
    size, folder = size or DemoSize(), DemoFolder(Path(output))
    folder.claim(size, seed=seed)
    return _Demo(folder, size, seed, Stages(watch, ended)).run()


def divide(test: Catalog, *, seed: int) -> tuple[Catalog, Catalog]:
    """Return the images to search, and of each class KEPT_OUT drawn at random to ask with."""
    draw = np.random.default_rng(seed)
    codes = range(len(test.classes))
    drawn = (draw.choice(np.flatnonzero(test.codes == c), KEPT_OUT, replace=False) for c in codes)
    outside = {int(row) for its in drawn for row in its}
    inside = [row for row in range(len(test)) if row not in outside]
    return test.select(inside), test.select(sorted(outside))


class _Demo:
    def __init__(self, folder: DemoFolder, size: DemoSize, seed: int, stages: Stages) -> None:
        self.folder, self.size, self.seed, self.stages = folder, size, seed, stages
        # As commands name the data.
        self.data = "glyphs" if size.is_usual_data else str(folder.glyphs / TABLE)

    def run(self) -> DemoResult:
        folder, seed = self.folder, self.seed
        glyphs = self.draw()
        encoder = self.train(glyphs, "bayes-centred", folder.model)
        baseline = self.train(glyphs, "triplet", folder.baseline)
        gallery, kept_out = divide(glyphs.test, seed=seed)
        with self.index(encoder, gallery) as index:
            calibration = self.calibrate(index)
            self.evaluate()
            rows, reading = self.upgrade(baseline, gallery, index, calibration)
            questions, tally = self.ask(index, kept_out, glyphs)
        return DemoResult(
            folder=folder,
            seed=seed,
            precision=WISHES.precision,
            stages=tuple(self.stages.done),
            rows=rows,
            reading=reading,
            questions=questions,
            tally=tally,
            calibration=calibration,
        )

    def draw(self) -> Splits:
        """The usual glyphs are kept where every command finds them."""
        size = self.size
        with self.stages.next() as stage:
            place = glyphs_folder() if size.is_usual_data else self.folder.glyphs
            stage.reused = place.exists()
            draw_glyphs(place, classes=size.classes, per_class=size.per_class, foreign=size.foreign)
            glyphs = open_dataset(self.data)
            images = len(glyphs.train) + len(glyphs.val) + len(glyphs.test)
            stage.figure = (
                f"{images:,} pictures of {size.classes} letters, {size.foreign} of symbols: {place}"
            )
        return glyphs

    def train(self, glyphs: Splits, recipe_name: str, folder: Path) -> Encoder:
        """A finished model is used as it is, an unfinished one goes on where it was."""
        recipe = self.size.recipe(recipe_name, seed=self.seed)
        steps = recipe.schedule.steps
        with self.stages.next() as stage:
            begun = (folder / "run" / "recipe.toml").is_file()
            stage.reused = begun and is_trained(folder, recipe)
            if not stage.reused:
                train(
                    glyphs,
                    recipe,
                    folder,
                    resume=RunFolder(folder).state_path.is_file(),
                    on_step=lambda info: stage.tell("", info.step, steps),
                )
            log = read_log(folder / "run" / "log.csv")
            first, *later = (row.recall for row in log if row.recall == row.recall)
            # The untrained model is not kept where there is a variance: it knows nothing of it.
            kept = max(later if recipe.encoder.family != "point" else [first, *later])
            stage.figure = f"R@1 {first:.3f} -> {kept:.3f} on validation classes, {steps} steps"
        return Encoder.load(folder)

    def index(self, encoder: Encoder, gallery: Catalog) -> Index:
        """The index of an earlier run is completed, else a new one is made."""
        path = self.folder.index
        with self.stages.next() as stage:
            stage.reused = IndexFolder(path).exists()
            if stage.reused:
                index = Index.open(path, encoder=encoder)
            else:
                index = Index.create(path, encoder)
            if len(index) < len(gallery):
                index.add(
                    gallery,
                    duplicates="keep",
                    progress=lambda done: stage.tell("", done, len(gallery)),
                )
                index.compact()
            if index.known(gallery.ids) != set(gallery.ids) or len(index) != len(gallery):
                index.close()
                raise InvalidFile(
                    f"{path} holds other images than those of the demo",
                    fix=f"delete {path}, or {NEW_FOLDER}",
                )
            stage.figure = f"{len(index):,} glyphs of {len(gallery.classes)} classes"
        return index

    def calibrate(self, index: Index) -> Calibration:
        """By its own images, each searched among the others."""
        with self.stages.next() as stage:
            calibration = index.calibration
            stage.reused = calibration is not None and (
                calibration.origin.gallery,
                calibration.promise.precision,
                calibration.foreign_rate,
            ) == (len(index), WISHES.precision, WISHES.foreign_rate)
            if calibration is None or not stage.reused:
                calibration = index.calibrate(wishes=WISHES, seed=self.seed, progress=stage.tell)
            stage.figure = promised(calibration.promise)
        return calibration

    def evaluate(self) -> None:
        with self.stages.next() as stage:
            report = ReportFolder(self.folder.report)
            request = Request(
                model=self.folder.model,
                data=self.data,
                ladder=self.size.ladder,
                seed=self.seed,
                command=f"surefind demo -o {self.folder.path} --seed {self.seed}",
            )
            result = finished_evaluation(request, report.folder)
            stage.reused = result is not None
            if result is None:
                report.make()
                evaluation = evaluate(request, kept_in=report.embeddings, tell=stage.tell)
                stage.tell("writing", 0, 1)
                report.write(evaluation)
                result = evaluation.result
            about = result.about
            stage.figure = (
                f"{about.queries:,} queries, {about.foreign_queries} foreign ones: {report.page}"
            )

    def upgrade(
        self, baseline: Encoder, gallery: Catalog, index: Index, calibration: Calibration
    ) -> tuple[tuple[Row, ...], tuple[str, ...]]:
        """The baseline's vectors become a file, as anybody may bring them; all are compared."""
        folder = self.folder
        with self.stages.next() as stage:
            vectors = embed_catalog(
                baseline,
                gallery,
                kept_in=folder.baseline / "embeddings",
                max_bad_share=0.0,
                progress=lambda done: stage.tell("encoding", done, len(gallery)),
            ).embeddings.mean
            known = read_vectors(folder.vectors) if folder.vectors.is_file() else None
            if (
                known is not None
                and known.ids == gallery.ids
                and np.array_equal(known.values, vectors.numpy())
            ):
                stage.reused = True
                upgrade = Upgrade.load(folder.vectors_model)
            else:
                upgrade = calibrate(
                    vectors, gallery.labels, wishes=WISHES, seed=self.seed, progress=stage.tell
                )
                upgrade.save(folder.vectors_model)
                labels, ids = np.array(gallery.labels), np.array(gallery.ids)
                with whole_file(folder.vectors) as file:  # last: it says that the upgrade is there
                    np.savez(file, vectors=vectors.numpy(), labels=labels, ids=ids)
            quality = upgrade.calibration.quality
            stage.figure = (
                f"AUROC of wrong first hits {digits(quality.baseline_auroc)} by distance, "
                f"{digits(quality.auroc)} by confidence"
            )
            return compare(
                gallery,
                points=vectors,
                upgrade=upgrade.calibration.curve,
                embeddings=index.items(gallery.ids).embeddings,
                confidence=calibration.curve,
                precision=WISHES.precision,
                seed=self.seed,
            )

    def ask(
        self, index: Index, kept_out: Catalog, glyphs: Splits
    ) -> tuple[tuple[Question, ...], Tally]:
        with self.stages.next() as stage:
            assert glyphs.foreign is not None, "glyphs come with symbols"
            kept_in = ReportFolder(self.folder.report).embeddings
            symbols = embed_catalog(index.encoder, glyphs.foreign, kept_in=kept_in)
            questions, tally = ask(index, kept_out, symbols, self.folder.queries)
            stage.figure = str(tally)
        return questions, tally
