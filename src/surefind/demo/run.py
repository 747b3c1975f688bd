"""The demo from its first stage to its last."""

from collections.abc import Callable
from pathlib import Path

from surefind.datasets import open_dataset
from surefind.datasets.glyphs import TABLE, draw_glyphs, glyphs_folder
from surefind.datasets.splits import Splits
from surefind.demo.comparing import Comparison, compare
from surefind.demo.folder import DemoFolder
from surefind.demo.gallery import WISHES, calibrated, divide, indexed, known_calibration
from surefind.demo.questions import Question, Tally, ask
from surefind.demo.result import DemoResult
from surefind.demo.service import INSTALL, Answered, ask_service, is_installed
from surefind.demo.size import DemoSize
from surefind.demo.stages import StageDone, Stages, Watch, unwatched
from surefind.demo.training import trained
from surefind.demo.vectors import upgraded
from surefind.encoders.encoder import Encoder
from surefind.images.catalog import Catalog
from surefind.reports.encoded import embed_catalog
from surefind.reports.evaluate import Request, evaluate
from surefind.reports.folder import ReportFolder
from surefind.reports.reproduce.finished import finished_evaluation
from surefind.search.confidence.calibration import Calibration
from surefind.search.folder import IndexFolder
from surefind.search.index import Index
from surefind.search.sentences import digits, promised
from surefind.training.recipe import Recipe


def run_demo(
    output: str | Path,
    *,
    size: DemoSize | None = None,
    seed: int = 0,
    watch: Watch = unwatched,
    ended: Callable[[StageDone], None] | None = None,
) -> DemoResult:
    """Glyphs, two encoders, an index, a calibration, a report, three queries, a table.

    `output` becomes the demo's folder. What an earlier run with the same settings finished there
    is used again. `watch` shows a stage while it runs, `ended` is told of each that is done.
    """
    size, folder = size or DemoSize(), DemoFolder(Path(output))
    folder.claim(size, seed=seed)
    return _Demo(folder, size, seed, Stages(watch, ended)).run()


class _Demo:
    def __init__(self, folder: DemoFolder, size: DemoSize, seed: int, stages: Stages) -> None:
        self.folder, self.size, self.seed, self.stages = folder, size, seed, stages

    def run(self) -> DemoResult:
        folder, size, seed = self.folder, self.size, self.seed
        glyphs = self.draw()
        encoder = self.train(glyphs, size.recipe(seed), folder.model)
        baseline = self.train(glyphs, size.baseline_recipe(seed), folder.baseline)
        divided = divide(glyphs.test, seed=seed)
        with self.index(encoder, divided.gallery) as index:
            calibration = self.calibrate(index)
            self.evaluate()
            comparison = self.compare(index, baseline, divided.gallery)
            questions, tally = self.ask(index, divided.kept_out, glyphs)
        return DemoResult(
            folder=folder,
            seed=seed,
            precision=WISHES.precision,
            questions=tuple(questions),
            tally=tally,
            calibration=calibration,
            service=self.ask_service(questions),
            rows=comparison.rows,
            reading=comparison.reading,
            stages=tuple(self.stages.done),
        )

    @property
    def data(self) -> str:
        """As commands name it."""
        return "glyphs" if self.size.is_usual_data else str(self.folder.glyphs / TABLE)

    def draw(self) -> Splits:
        """The usual glyphs are kept where every command finds them."""
        with self.stages.next() as stage:
            place = glyphs_folder() if self.size.is_usual_data else self.folder.glyphs
            stage.reused = place.exists()
            settings = self.size.glyphs
            draw_glyphs(
                place,
                classes=settings.classes,
                per_class=settings.per_class,
                foreign=settings.foreign,
            )
            glyphs = open_dataset(self.data)
            images = len(glyphs.train) + len(glyphs.val) + len(glyphs.test)
            stage.figure = (
                f"{images:,} pictures of {settings.classes} letters, "
                f"{settings.foreign} of symbols: {place}"
            )
        return glyphs

    def train(self, glyphs: Splits, recipe: Recipe, folder: Path) -> Encoder:
        with self.stages.next() as stage:
            found = trained(glyphs, recipe, folder, tell=stage.tell)
            stage.reused = found.reused
            stage.figure = (
                f"R@1 {found.start_recall:.3f} -> {found.recall:.3f} on validation classes, "
                f"{found.steps} steps"
            )
        return found.encoder

    def index(self, encoder: Encoder, gallery: Catalog) -> Index:
        with self.stages.next() as stage:
            place = IndexFolder(self.folder.index)
            stage.reused = place.exists()
            index = indexed(place, encoder, gallery, tell=stage.tell)
            stage.figure = f"{len(index):,} glyphs of {len(gallery.classes)} classes"
        return index

    def calibrate(self, index: Index) -> Calibration:
        with self.stages.next() as stage:
            known = known_calibration(index)
            stage.reused = known is not None
            calibration = known or calibrated(index, seed=self.seed, tell=stage.tell)
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

    def compare(self, index: Index, baseline: Encoder, gallery: Catalog) -> Comparison:
        with self.stages.next() as stage:
            made = upgraded(baseline, gallery, self.folder, seed=self.seed, tell=stage.tell)
            stage.reused = made.reused
            quality = made.upgrade.calibration.quality
            stage.figure = (
                f"AUROC of wrong first hits {digits(quality.baseline_auroc)} by distance, "
                f"{digits(quality.auroc)} by confidence"
            )
            return compare(index, made, gallery=gallery, seed=self.seed)

    def ask(self, index: Index, kept_out: Catalog, glyphs: Splits) -> tuple[list[Question], Tally]:
        with self.stages.next() as stage:
            assert glyphs.foreign is not None, "glyphs come with symbols"
            known = ReportFolder(self.folder.report).embeddings
            strangers = embed_catalog(index.encoder, glyphs.foreign, kept_in=known)
            questions, tally = ask(
                index,
                kept_out,
                strangers.catalog,
                strangers=strangers.embeddings,
                folder=self.folder.queries,
            )
            stage.figure = str(tally)
        return questions, tally

    def ask_service(self, questions: list[Question]) -> Answered | None:
        with self.stages.next() as stage:
            if not is_installed():
                stage.figure = f"left out, since it is not installed: {INSTALL}"
                return None
            answered = ask_service(self.folder.index, questions)
            same = "the same" if answered.same else "OTHER answers than the index"
            stage.figure = f"{', '.join(answered.verdicts)}: {same} by HTTP"
        return answered
