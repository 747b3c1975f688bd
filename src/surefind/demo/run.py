"""The demo: glyphs are drawn, two encoders trained, indexed, calibrated, evaluated, compared."""

import io
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from PIL import Image

import surefind as sf
from surefind.confidence.calibration import Calibration
from surefind.confidence.conformal import MATCH, NO_MATCH, UNSURE
from surefind.confidence.explain import digits, guaranteed
from surefind.datasets.glyphs import TABLE, GlyphSettings, draw_glyphs, glyphs_folder
from surefind.datasets.splits import Splits
from surefind.images.catalog import Catalog
from surefind.reports.evaluate import Request, evaluate
from surefind.reports.index_evaluation import ALL, IndexEvaluation, evaluate_index
from surefind.reports.rankings import Embedded, embed_catalog
from surefind.reports.report import ReportFolder, write_report
from surefind.reports.reproduce import claim_folder, finished_evaluation, is_trained
from surefind.search.folder import IndexFolder
from surefind.storage import make_writable, whole_file, write_whole
from surefind.training.run_folder import RunFolder, read_log
from surefind.vectors.reader import read_vectors

# What so short a training can guarantee.
TARGETS = sf.CalibrationTargets(precision=0.75, novelty_level=0.05)
BASELINE, BAYESIAN = "triplet baseline", "Bayesian encoder"
KEPT_OUT = 6  # queries of each class, which are not in the index
SHOWN = 3  # hits of each query
SECONDS = (2, 40, 33, 2, 5, 30, 5, 6)  # of each stage on two cores, for the time left
PATHS = {  # in the folder, by their names in JSON
    "model": "model",
    "baseline": "baseline",
    "index": "index",
    "report": "report/report.html",
    "queries": "queries",
    "vectors": "vectors.npz",
    "vectors_queries": "vectors-queries.npz",
    "vectors_model": "vectors-model",
    "vectors_index": "vectors-index",
}

Progress = Callable[[str, int, int], None]  # part of the stage, done, total
Watch = Callable[[str, float], AbstractContextManager[Progress]]  # shows a stage, and the seconds left in all


@dataclass(frozen=True)
class DemoSize:
    """Size of the demo; the default takes two minutes on two cores."""

    classes: int = GlyphSettings.classes
    per_class: int = GlyphSettings.per_class
    foreign: int = GlyphSettings.foreign
    steps: int = 400  # of training, of either encoder
    batch_classes: int = 32
    ladder: int = 40  # queries that the report corrupts step by step


@dataclass
class Stage:
    """A stage with its main result; `reused`: an earlier run had done the work."""

    number: int
    name: str
    figure: str = ""
    seconds: float = 0.0
    reused: bool = False

    @property
    def title(self) -> str:
        return f"{self.number}/{len(SECONDS)} {self.name}"


@dataclass(frozen=True)
class Question:
    """A query, its true label, and the result."""

    kind: str  # easy, hard or foreign
    about: str
    label: str | None  # none where nothing in the index can be right
    path: Path
    result: sf.SearchResult

    def as_dict(self) -> dict[str, Any]:
        first = self.result.hits[0]
        label = first.metadata.get("label")
        told = {name: getattr(self.result, name) for name in ("verdict", "confidence", "novelty_p_value")}
        right = self.label is not None and label == self.label
        asked = {"kind": self.kind, "about": self.about, "path": str(self.path), "label": self.label}
        return {**asked, **told, "first_hit": first.id, "first_label": label, "right": right}


@dataclass(frozen=True)
class DemoResult:
    """Results of the demo; its files are in the folder."""

    folder: Path
    seed: int
    stages: tuple[Stage, ...]
    evaluations: dict[str, IndexEvaluation]  # by encoder, with the glyphs kept out
    questions: tuple[Question, ...]
    symbols: dict[str, int]  # queries, and those without a match
    calibration: Calibration

    @property
    def open_page(self) -> str:
        """The command that serves the index."""
        index, queries, report = (str(self.folder / name) for name in ("index", "queries", "report"))
        return shlex.join(("surefind", "serve", index, "--samples", queries, "--report", report))

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "output": str(self.folder),
            "seed": self.seed,
            "seconds": round(sum(stage.seconds for stage in self.stages), 1),
            "stages": [asdict(stage) for stage in self.stages],
            "evaluations": {name: found.as_dict() for name, found in self.evaluations.items()},
            "queries": [question.as_dict() for question in self.questions],
            "symbols": self.symbols,
            "paths": {name: str(self.folder / inside) for name, inside in PATHS.items()},
            "next": [self.open_page, "surefind train photos/ -o model"],
        }


def run_demo(
    output: str | Path,
    *,
    size: DemoSize | None = None,
    seed: int = 0,
    watch: Watch = lambda *_: nullcontext(lambda *_: None),
    ended: Callable[[Stage], None] = lambda _: None,
) -> DemoResult:
    """Draw glyphs, train two encoders, index, calibrate, evaluate, search, compare.

    Args:
        output: The demo's folder; what an earlier run with the same settings finished is used again.
        size: How much to do.
        seed: Seed of training and of every random draw.
        watch: Context manager that shows a stage, given its title and the seconds left in all.
        ended: Called with each stage that is done.

    Returns:
        The table, the queries and the paths of everything that was written.

    Raises:
        InvalidFile: The folder has other files, or was made with other settings.
    """
    size, folder = size or DemoSize(), Path(output)
    claim(folder, size, seed=seed)
    demo = _Demo(folder, size, seed, watch, ended)
    glyphs = demo.draw()
    encoder = demo.train(glyphs, BAYESIAN, "bayes-centred", folder / "model")
    baseline = demo.train(glyphs, BASELINE, "triplet", folder / "baseline")
    gallery, kept_out = divide(glyphs.test, seed=seed)
    with demo.index(encoder, gallery) as index:
        calibration = demo.calibrate(index)
        demo.evaluate()
        vectors, asked = demo.upgrade(baseline, gallery, kept_out)
        with vectors, demo.stage("evaluating both indexes, asking three queries") as (stage, progress):
            evaluations = {
                BASELINE: evaluate_index(vectors, asked, labels=kept_out.labels, seed=seed, progress=progress),
                BAYESIAN: evaluate_index(index, kept_out, seed=seed, progress=progress),
            }
            assert glyphs.foreign is not None, "glyphs come with symbols"
            symbols = embed_catalog(encoder, glyphs.foreign, kept_in=ReportFolder(folder / "report").embeddings)
            questions, strange = ask(index, kept_out, symbols, folder / "queries")
            counts = evaluations[BAYESIAN].verdicts[ALL]
            stage.figure = (
                f"of {counts.queries} glyphs kept out, {counts.match} match "
                f"({counts.right} rightly), {counts.unsure} unsure, {counts.no_match} no match; "
                f"of {len(symbols.catalog)} symbols {strange} no match"
            )
    counted = {"queries": len(symbols.catalog), "no_match": strange}
    return DemoResult(folder, seed, tuple(demo.stages), evaluations, questions, counted, calibration)


def claim(folder: Path, size: DemoSize, *, seed: int) -> None:
    """Create the folder of a demo, or check that it was made with the same settings."""
    file = folder / "demo.json"
    hidden = folder.is_dir() and all(path.name[0] == "." for path in folder.iterdir())
    if folder.exists() and not hidden and not file.is_file():  # a killed run may leave hidden files
        fix = "name a new folder: surefind demo -o FOLDER"
        raise sf.InvalidFile(f"{folder} is no demo, and is not empty", fix=fix)
    claim_folder(file, {"surefind": sf.__version__, "seed": seed, "size": asdict(size)})
    make_writable(folder)


def divide(test: Catalog, *, seed: int) -> tuple[Catalog, Catalog]:
    """Return the gallery, and KEPT_OUT random images of each class as queries."""
    draw = np.random.default_rng(seed)
    rows = (np.flatnonzero(test.codes == code) for code in range(len(test.classes)))
    outside = np.sort([draw.choice(its, KEPT_OUT, replace=False) for its in rows], axis=None)
    return test.select(np.delete(np.arange(len(test)), outside)), test.select(outside)


@dataclass
class _Demo:
    folder: Path
    size: DemoSize
    seed: int
    watch: Watch
    ended: Callable[[Stage], None]
    data: str = "glyphs"  # as commands name it
    stages: list[Stage] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[tuple[Stage, Progress]]:
        """Run a stage, time it, and call `ended`."""
        began, stage = perf_counter(), Stage(len(self.stages) + 1, name)
        done = [one for one in self.stages if not one.reused]
        usual = sum(SECONDS[one.number - 1] for one in done)
        pace = sum(one.seconds for one in done) / usual if usual else 1.0  # of this machine
        with self.watch(stage.title, pace * sum(SECONDS[stage.number - 1 :])) as progress:
            yield stage, progress
        stage.seconds = round(perf_counter() - began, 3)
        self.stages.append(stage)
        self.ended(stage)

    def draw(self) -> Splits:
        """Draw the glyphs; those of the default size are cached for all commands."""
        size, folder = self.size, glyphs_folder()
        if GlyphSettings(size.classes, size.per_class, size.foreign) != GlyphSettings():
            folder = self.folder / "glyphs"
            self.data = str(folder / TABLE)
        with self.stage("drawing glyphs") as (stage, _):
            stage.reused = folder.exists()
            draw_glyphs(folder, classes=size.classes, per_class=size.per_class, foreign=size.foreign)
            glyphs = sf.open_dataset(self.data)
            images = len(glyphs.train) + len(glyphs.val) + len(glyphs.test)
            stage.figure = f"{images:,} pictures of {size.classes} letters, {size.foreign} of symbols: {folder}"
        return glyphs

    def train(self, glyphs: Splits, kind: str, recipe_name: str, folder: Path) -> sf.Encoder:
        """Train a model; reuse a finished one, resume an unfinished one."""
        steps = self.size.steps
        settings = [
            f"seed={self.seed}",
            f"batch.classes={self.size.batch_classes}",
            f"schedule.steps={steps}",
            f"schedule.validate_every={max(1, steps // 5)}",
            f"schedule.checkpoint_every={max(1, steps // 10)}",  # lost by an interruption
        ]
        recipe = sf.Recipe.read(f"{recipe_name}+glyphs", settings)
        with self.stage(f"training the {kind}") as (stage, progress):
            begun = (folder / "run" / "recipe.toml").is_file()
            stage.reused = begun and is_trained(folder, recipe)
            if not stage.reused:
                sf.train(
                    glyphs,
                    recipe,
                    folder,
                    resume=RunFolder(folder).state_path.is_file(),
                    on_step=lambda info: progress("", info.step, steps),
                )
            log = read_log(folder / "run" / "log.csv")
            first, *later = (row.recall for row in log if row.recall == row.recall)
            # The untrained model is not kept where there is a variance: it knows nothing of it.
            kept = max(later if recipe.encoder.family != "point" else [first, *later])
            stage.figure = f"R@1 {first:.3f} -> {kept:.3f} on validation classes, {steps} steps"
        return sf.Encoder.load(folder)

    def index(self, encoder: sf.Encoder, gallery: Catalog) -> sf.Index:
        """Make the index, or complete that of an earlier run."""
        path = self.folder / "index"
        with self.stage("indexing glyphs of new classes") as (stage, progress):
            stage.reused = IndexFolder(path).exists()
            index = (sf.Index.open if stage.reused else sf.Index.create)(path, encoder=encoder)
            if len(index) < len(gallery):
                index.add(gallery, duplicates="keep", progress=lambda done: progress("", done, len(gallery)))
                index.compact()
            stage.figure = f"{len(index):,} glyphs of {len(gallery.classes)} classes"
        return index

    def calibrate(self, index: sf.Index) -> Calibration:
        """Calibrate by the index's own images, each searched among the others."""
        with self.stage("calibrating") as (stage, progress):
            calibration = index.calibration
            if calibration is not None:  # of this index, or the one that came with it
                made = calibration.origin.gallery, calibration.guarantee.precision, calibration.novelty_level
                stage.reused = made == (len(index), TARGETS.precision, TARGETS.novelty_level)
            if calibration is None or not stage.reused:
                calibration = index.calibrate(targets=TARGETS, seed=self.seed, progress=progress)
            stage.figure = guaranteed(calibration.guarantee)
        return calibration

    def evaluate(self) -> None:
        with self.stage("evaluating, writing the report") as (stage, progress):
            report = ReportFolder(self.folder / "report")
            model, command = self.folder / "model", f"surefind demo -o {self.folder} --seed {self.seed}"
            request = Request(model=model, data=self.data, ladder=self.size.ladder, seed=self.seed, command=command)
            result = finished_evaluation(request, report.folder)
            stage.reused = result is not None
            if result is None:  # without figures/, which `surefind figures` draws
                result, queries = evaluate(request, kept_in=report.embeddings, progress=progress)
                progress("writing the report", 0, 1)
                write_report(report.folder, result, queries)
                queries.write(report.queries)
                result.write(report.results)  # last: marks the report as complete
            asked = f"{result.about.queries:,} queries, {result.about.foreign_queries} foreign ones"
            stage.figure = f"{asked}: {report.page}"

    def upgrade(self, baseline: sf.Encoder, gallery: Catalog, kept_out: Catalog) -> tuple[sf.Index, sf.Embeddings]:
        """Upgrade the baseline's vectors, as a user's would be; return their index and queries."""
        file, asked, model, folder = (
            self.folder / PATHS[name] for name in ("vectors", "vectors_queries", "vectors_model", "vectors_index")
        )

        def save(path: Path, some: Catalog) -> torch.Tensor:
            vectors = baseline.encode_all(
                some.files, max_bad_share=0.0, progress=lambda done: progress("encoding", done, len(some))
            ).embeddings.mean
            with whole_file(path) as written:
                np.savez(written, vectors=vectors.numpy(), labels=some.labels, ids=some.ids)
            return vectors

        with self.stage("upgrading the baseline's vectors, as if they were yours") as (stage, progress):
            stage.reused = asked.is_file()
            if not stage.reused:
                vectors = save(file, gallery)
                upgrade = sf.calibrate(vectors, gallery.labels, targets=TARGETS, seed=self.seed, progress=progress)
                upgrade.save(model)
                shutil.rmtree(folder, ignore_errors=True)  # of an interrupted run
                upgrade.index(folder, vectors, ids=gallery.ids, labels=gallery.labels).close()
                save(asked, kept_out)  # last: marks the upgrade as complete
            upgrade = sf.Upgrade.load(model)
            quality = upgrade.calibration.quality
            assert quality is not None
            stage.figure = (
                f"AUROC of wrong first hits {digits(quality.baseline_auroc)} by distance, "
                f"{digits(quality.auroc)} by confidence"
            )
            return sf.Index.open(folder), upgrade.embed(read_vectors(asked).values)


def ask(index: sf.Index, kept_out: Catalog, symbols: Embedded, folder: Path) -> tuple[tuple[Question, ...], int]:
    """Search with all images; write one of each verdict to the folder and search with it again.

    Also returns how many of the symbols have no match.
    """
    own = index.search(index.encoder.encode(kept_out.files), SHOWN)
    foreign = index.search(symbols.embeddings, SHOWN)
    easy = best_with(own, MATCH, by=[result.confidence or 0.0 for result in own])
    hard = best_with(own, UNSURE, by=kept_out.difficulty)
    make_writable(folder)
    questions = []
    for kind, about, row in (
        ("easy", "the glyph, of those kept out, that it is surest of", easy),
        ("hard", "the most spoilt of those it is unsure of", hard),
    ):
        path = folder / f"{kind}.png"
        write_whole(path, kept_out.file(row).read_bytes())
        questions.append(Question(kind, about, kept_out.labels[row], path, index.search(path, SHOWN)))
    questions.append(foreign_question(index, symbols.catalog, foreign, folder / "foreign.png"))
    return tuple(questions), sum(result.verdict == NO_MATCH for result in foreign)


def foreign_question(index: sf.Index, symbols: Catalog, theirs: list[sf.SearchResult], path: Path) -> Question:
    """Search with a chess board; if it passes for a glyph, with the strangest of the symbols."""
    squares = (np.indices((64, 64)) // 8).sum(axis=0) % 2
    file = io.BytesIO()
    Image.fromarray((255 * squares).astype(np.uint8)).save(file, "PNG")
    about, picture = "a chess board, which is no glyph at all", file.getvalue()
    if index.search(picture, SHOWN).verdict != NO_MATCH:
        strange = [-(result.novelty_p_value or 0.0) for result in theirs]
        about = "the strangest of the symbols, which are no letters"
        picture = symbols.file(best_with(theirs, NO_MATCH, by=strange)).read_bytes()
    write_whole(path, picture)
    return Question("foreign", about, None, path, index.search(path, SHOWN))


def best_with(results: Sequence[sf.SearchResult], verdict: str, *, by: Sequence[float]) -> int:
    """Return the highest of those with the verdict; of all, if none has it."""
    return max(range(len(results)), key=lambda row: (results[row].verdict == verdict, by[row]))
