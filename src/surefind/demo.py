"""`surefind demo` as a function: train, index, calibrate, evaluate and search built-in data."""

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import surefind as sf
from surefind.confidence.calibration import Calibration
from surefind.confidence.conformal import MATCH, NO_MATCH, UNSURE
from surefind.datasets.glyphs import TABLE, GlyphSettings, draw_glyphs, glyphs_folder
from surefind.datasets.splits import Splits
from surefind.files import make_writable, whole_file, write_whole
from surefind.images.catalog import Catalog
from surefind.reports.evaluate import Request, evaluate
from surefind.reports.protocol import embed_catalog
from surefind.reports.report import ReportFolder
from surefind.reports.reproduce.run import finished_evaluation, is_trained
from surefind.search.folder import IndexFolder
from surefind.search.hits import SearchResult
from surefind.search.sentences import digits, guaranteed
from surefind.training.run_folder import RunFolder, read_log
from surefind.training.trainer import train
from surefind.vectors.upgrade import calibrate

TARGETS = sf.CalibrationTargets(precision=0.75, novelty_level=0.05)  # for so short a training
BASELINE, BAYESIAN = "triplet baseline", "Bayesian encoder"
HELD_OUT = 3  # images per class used as queries
K = 3  # hits per query
NEW_FOLDER = "name a new folder: surefind demo -o FOLDER"
STAGES = 8

Progress = Callable[[str, int, int], None]  # part of the stage, done, total
Watch = Callable[["Stage"], AbstractContextManager[Progress]]  # shows a stage while it runs


@dataclass(frozen=True)
class DemoSize:
    """Amount of data and training; the default takes two minutes on two cores."""

    classes: int = GlyphSettings.classes
    per_class: int = GlyphSettings.per_class
    foreign: int = GlyphSettings.foreign
    steps: int = 400  # of training, for each encoder
    batch_classes: int = 32
    ladder: int = 40  # queries that the report corrupts step by step

    def recipe(self, name: str, *, seed: int) -> sf.Recipe:
        """Return a recipe for glyphs with this number of steps."""
        changes = {
            "seed": seed,
            "batch.classes": self.batch_classes,
            "schedule.steps": self.steps,
            "schedule.validate_every": max(1, self.steps // 5),
            "schedule.checkpoint_every": max(1, self.steps // 10),
        }
        settings = [f"{key}={value}" for key, value in changes.items()]
        return sf.Recipe.read(f"{name}+glyphs", settings)


@dataclass
class Stage:
    """One stage of the demo, with its main result."""

    number: int
    name: str
    summary: str = ""
    seconds: float = 0.0
    reused: bool = False  # from an earlier run

    @property
    def title(self) -> str:
        return f"{self.number}/{STAGES} {self.name}"


@dataclass(frozen=True)
class DemoQuery:
    """An example query with its true label and its search result."""

    kind: str  # easy, hard or foreign
    about: str
    label: str | None  # None: no image of the index matches
    path: Path
    result: SearchResult

    def as_dict(self) -> dict[str, Any]:
        """Return the query and its first hit for JSON."""
        result = self.result
        first_label = result.hits[0].metadata.get("label")
        return {
            "kind": self.kind,
            "about": self.about,
            "path": str(self.path),
            "label": self.label,
            "verdict": result.verdict,
            "confidence": result.confidence,
            "novelty_p_value": result.novelty_p_value,
            "first_hit": result.hits[0].id,
            "right": self.label is not None and first_label == self.label,
        }


@dataclass(frozen=True)
class DemoResult:
    """Results of the demo; the files are in the folder."""

    folder: Path
    seed: int
    stages: tuple[Stage, ...]
    queries: tuple[DemoQuery, ...]
    verdicts: dict[str, Any]  # counts over all held-out letters and all symbols
    calibration: Calibration  # of the index
    upgrade: Calibration  # of the baseline's vectors

    @property
    def table(self) -> list[dict[str, Any]]:
        """How well each signal detects a wrong first hit, cross-validated over classes.

        A row has R@1, the AUROC and, of a probability, its debiased ECE and that of a perfectly
        calibrated model (`floor`); of a confidence, the share of queries answered.
        """
        rows = []
        for encoder, name, made in (
            (BASELINE, "your own vectors + upgrade", self.upgrade),
            (BAYESIAN, "surefind's confidence", self.calibration),
        ):
            own = made.quality
            for signal, auroc, ece, floor, answered in (
                (
                    "nearest distance",
                    own.baseline_auroc,
                    own.baseline_ece,
                    own.baseline_floor,
                    None,
                ),
                ("d₁/d₂₀", own.ratio_auroc, None, None, None),
                (name, own.auroc, own.ece, own.floor, made.guarantee.coverage),
            ):
                row = {"encoder": encoder, "signal": signal, "recall": own.right, "auroc": auroc}
                rows.append(row | {"ece": ece, "floor": floor, "answered": answered})
        return rows

    @property
    def serve_command(self) -> str:
        """The command that serves the index."""
        index, queries, report = (
            f"{self.folder}/{name}" for name in ("index", "queries", "report")
        )
        return shlex.join(("surefind", "serve", index, "--samples", queries, "--report", report))

    def as_dict(self) -> dict[str, Any]:
        """Return all results for JSON."""
        return {
            "output": str(self.folder),
            "seed": self.seed,
            "seconds": round(sum(stage.seconds for stage in self.stages), 1),
            "stages": [asdict(stage) for stage in self.stages],
            "precision": TARGETS.precision,
            "table": self.table,
            "queries": [query.as_dict() for query in self.queries],
            "verdicts": self.verdicts,
            "next": [self.serve_command, "surefind train photos/ -o model"],
        }


def run_demo(
    output: str | Path,
    *,
    size: DemoSize | None = None,
    seed: int = 0,
    watch: Watch = lambda _: nullcontext(lambda *_: None),
) -> DemoResult:
    """Draw glyphs, train two encoders, index, calibrate, evaluate and search.

    Args:
        output: Folder of the demo. Finished stages of an earlier run with the same settings are
            reused.
        size: Amount of data and training.
        seed: Seed of training and sampling.
        watch: Returns a context manager that shows a stage; it has a summary at the end.

    Returns:
        The table, the example queries and the paths of the files.

    Raises:
        InvalidFile: The folder has other files, or was made with other settings.
    """
    size, folder = size or DemoSize(), Path(output)
    claim(folder, size, seed=seed)
    demo = _Demo(folder, size, seed, watch)
    glyphs = demo.draw()
    encoder = demo.train(glyphs, BAYESIAN, "bayes-centred", folder / "model")
    baseline = demo.train(glyphs, BASELINE, "triplet", folder / "baseline")
    gallery, held_out = hold_out(glyphs.test, seed=seed)
    with demo.index(encoder, gallery) as index:
        calibration = demo.calibrate(index)
        demo.evaluate()
        upgrade = demo.upgrade(baseline, gallery)
        queries, verdicts = demo.search(index, held_out, glyphs)
    stages = tuple(demo.stages)
    return DemoResult(folder, seed, stages, queries, verdicts, calibration, upgrade)


def claim(folder: Path, size: DemoSize, *, seed: int) -> None:
    """Write the settings to a new folder, or check that they are those of an earlier run."""
    file = folder / "demo.json"
    now = {"surefind": sf.__version__, "seed": seed, "size": asdict(size)}
    if not file.is_file():
        hidden = folder.is_dir() and all(path.name[0] == "." for path in folder.iterdir())
        if folder.exists() and not hidden:  # a killed run may leave a hidden file
            raise sf.InvalidFile(f"{folder} is neither a demo nor empty", fix=NEW_FOLDER)
        make_writable(folder)
        write_whole(file, (json.dumps(now, indent=1) + "\n").encode())
    try:
        then = dict(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise sf.InvalidFile(f"cannot read {file}: {error}", fix=NEW_FOLDER) from error
    for key, value in now.items():
        if then.get(key) != value:
            raise sf.InvalidFile(
                f"{folder} was made with another {key}: {then.get(key)}, not {value}",
                fix=f"{NEW_FOLDER}, or delete this one",
            )
    make_writable(folder)


def hold_out(test: Catalog, *, seed: int) -> tuple[Catalog, Catalog]:
    """Split off HELD_OUT random images per class: (gallery, queries)."""
    draw = np.random.default_rng(seed)
    codes = range(len(test.classes))
    drawn = (draw.choice(np.flatnonzero(test.codes == c), HELD_OUT, replace=False) for c in codes)
    outside = {int(row) for its in drawn for row in its}
    inside = [row for row in range(len(test)) if row not in outside]
    return test.select(inside), test.select(sorted(outside))


@dataclass
class _Demo:
    folder: Path
    size: DemoSize
    seed: int
    watch: Watch
    stages: list[Stage] = field(default_factory=list)

    def __post_init__(self) -> None:
        drawn = GlyphSettings(self.size.classes, self.size.per_class, self.size.foreign)
        usual = drawn == GlyphSettings()
        self.glyphs = glyphs_folder() if usual else self.folder / "glyphs"
        self.data = "glyphs" if usual else str(self.glyphs / TABLE)  # as commands name it

    @contextmanager
    def stage(self, name: str) -> Iterator[tuple[Stage, Progress]]:
        """Show and time a stage."""
        began, stage = perf_counter(), Stage(len(self.stages) + 1, name)
        with self.watch(stage) as progress:
            yield stage, progress
            stage.seconds = round(perf_counter() - began, 3)
        self.stages.append(stage)

    def draw(self) -> Splits:
        """Draw the glyphs; those of the default size go to the cache that all commands use."""
        size = self.size
        with self.stage("drawing images of letters") as (stage, _):
            stage.reused = self.glyphs.exists()
            draw_glyphs(
                self.glyphs, classes=size.classes, per_class=size.per_class, foreign=size.foreign
            )
            glyphs = sf.open_dataset(self.data)
            images = len(glyphs.train) + len(glyphs.val) + len(glyphs.test)
            letters = f"{images:,} images of {size.classes} letters"
            stage.summary = f"{letters}, {size.foreign} of symbols: {self.glyphs}"
        return glyphs

    def train(self, glyphs: Splits, kind: str, recipe_name: str, folder: Path) -> sf.Encoder:
        """Train a model; a finished one is reused, an unfinished one resumed."""
        recipe = self.size.recipe(recipe_name, seed=self.seed)
        steps = recipe.schedule.steps
        with self.stage(f"training the {kind}") as (stage, progress):
            begun = (folder / "run" / "recipe.toml").is_file()
            stage.reused = begun and is_trained(folder, recipe)
            if not stage.reused:
                train(
                    glyphs,
                    recipe,
                    folder,
                    resume=RunFolder(folder).state_path.is_file(),
                    on_step=lambda info: progress("", info.step, steps),
                )
            log = read_log(folder / "run" / "log.csv")
            first, *later = (row.recall for row in log if row.recall == row.recall)
            # The trainer never keeps an untrained model that has a variance.
            kept = max(later if recipe.encoder.family != "point" else [first, *later])
            stage.summary = f"R@1 {first:.3f} -> {kept:.3f} on validation classes, {steps} steps"
        return sf.Encoder.load(folder)

    def index(self, encoder: sf.Encoder, gallery: Catalog) -> sf.Index:
        """Create the index, or complete that of an earlier run."""
        path = self.folder / "index"
        with self.stage("indexing classes not trained on") as (stage, progress):
            stage.reused = IndexFolder(path).exists()
            make = sf.Index.open if stage.reused else sf.Index.create
            index = make(path, encoder=encoder)
            if len(index) < len(gallery):
                total = len(gallery)
                index.add(
                    gallery, duplicates="keep", progress=lambda done: progress("", done, total)
                )
                index.compact()
            stage.summary = f"{len(index):,} images of {len(gallery.classes)} classes"
        return index

    def calibrate(self, index: sf.Index) -> Calibration:
        """Calibrate with the indexed images, each searched among the others."""
        with self.stage("calibrating") as (stage, progress):
            old = index.calibration
            stage.reused = old is not None and (
                old.origin.gallery, old.guarantee.precision, old.novelty_level
            ) == (len(index), TARGETS.precision, TARGETS.novelty_level)  # fmt: skip
            if old is None or not stage.reused:
                old = index.calibrate(targets=TARGETS, seed=self.seed, progress=progress)
            stage.summary = guaranteed(old.guarantee)
        return old

    def evaluate(self) -> None:
        """Evaluate the model and write the report."""
        with self.stage("evaluating, writing the report") as (stage, progress):
            report = ReportFolder(self.folder / "report")
            request = Request(
                model=self.folder / "model",
                data=self.data,
                ladder=self.size.ladder,
                seed=self.seed,
                command=f"surefind demo -o {self.folder} --seed {self.seed}",
            )
            result = finished_evaluation(request, report.folder)
            stage.reused = result is not None
            if result is None:
                report.make()
                evaluation = evaluate(request, kept_in=report.embeddings, tell=progress)
                progress("writing", 0, 1)
                report.write(evaluation)
                result = evaluation.result
            about = result.about
            counts = f"{about.queries:,} queries, {about.foreign_queries} foreign ones"
            stage.summary = f"{counts}: {report.page}"

    def upgrade(self, baseline: sf.Encoder, gallery: Catalog) -> Calibration:
        """Upgrade the vectors of the baseline, as those of any other model."""
        file, model = self.folder / "vectors.npz", self.folder / "vectors-model"
        with self.stage("upgrading the vectors of the baseline") as (stage, progress):
            stage.reused = file.is_file()
            if not stage.reused:
                vectors = baseline.encode_all(
                    gallery.files,
                    max_bad_share=0.0,
                    progress=lambda done: progress("encoding", done, len(gallery)),
                ).embeddings.mean
                calibrate(
                    vectors, gallery.labels, targets=TARGETS, seed=self.seed, progress=progress
                ).save(model)
                labels, ids = np.array(gallery.labels), np.array(gallery.ids)
                with whole_file(file) as written:  # last: marks the stage as finished
                    np.savez(written, vectors=vectors.numpy(), labels=labels, ids=ids)
            upgrade = sf.Upgrade.load(model).calibration
            quality = upgrade.quality
            stage.summary = (
                f"AUROC of wrong first hits {digits(quality.baseline_auroc)} by distance, "
                f"{digits(quality.auroc)} by confidence"
            )
        return upgrade

    def search(
        self, index: sf.Index, held_out: Catalog, glyphs: Splits
    ) -> tuple[tuple[DemoQuery, ...], dict[str, Any]]:
        """Search all held-out letters and all symbols; return three examples and the counts."""
        with self.stage("searching") as (stage, _):
            assert glyphs.foreign is not None, "glyphs come with symbols"
            kept_in = ReportFolder(self.folder / "report").embeddings
            symbols = embed_catalog(index.encoder, glyphs.foreign, kept_in=kept_in)
            own = index.search(index.encoder.encode(held_out.files), K)
            foreign = index.search(symbols.embeddings, K)
            letters = Counter(result.verdict for result in own)
            verdicts = {
                "held_out": {verdict: letters[verdict] for verdict in (MATCH, UNSURE, NO_MATCH)},
                "right_matches": sum(
                    result.verdict == MATCH and result.hits[0].metadata.get("label") == label
                    for result, label in zip(own, held_out.labels, strict=True)
                ),
                "symbols": len(foreign),
                "foreign_symbols": sum(result.verdict == NO_MATCH for result in foreign),
            }
            stage.summary = (
                f"{len(held_out)} held-out letters: {letters[MATCH]} match "
                f"({verdicts['right_matches']} correct), {letters[UNSURE]} unsure, "
                f"{letters[NO_MATCH]} no match; {len(foreign)} symbols: "
                f"{verdicts['foreign_symbols']} no match"
            )
            easy = best_with(own, MATCH, by=[result.confidence or 0.0 for result in own])
            hard = best_with(own, UNSURE, by=held_out.difficulty)
            odd = best_with(
                foreign, NO_MATCH, by=[-(one.novelty_p_value or 0.0) for one in foreign]
            )
            make_writable(self.folder / "queries")
            queries = []
            for kind, about, file, label in (
                ("easy", "the letter with the highest confidence",
                 held_out.file(easy), held_out.labels[easy]),
                ("hard", "the most distorted letter with the verdict unsure",
                 held_out.file(hard), held_out.labels[hard]),
                ("foreign", "the symbol that is least like the letters",
                 symbols.catalog.file(odd), None),
            ):  # fmt: skip
                path = self.folder / "queries" / f"{kind}.png"
                write_whole(path, file.read_bytes())
                queries.append(DemoQuery(kind, about, label, path, index.search(path, K)))
        return tuple(queries), verdicts


def best_with(results: Sequence[SearchResult], verdict: str, *, by: Sequence[float]) -> int:
    """Return the row with the highest `by` among those with the verdict; among all, if none."""
    return max(range(len(results)), key=lambda row: (results[row].verdict == verdict, by[row]))
