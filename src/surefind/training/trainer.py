"""Train an encoder from splits and a recipe; resumable at any step."""

import csv
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from surefind.datasets.splits import Splits
from surefind.distributed import ProcessGroup, own_device
from surefind.embeddings import Embeddings
from surefind.encoders.encoder import Encoder
from surefind.encoders.serialization import class_hashes
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.functional.distance import squared_distances
from surefind.images.catalog import Catalog
from surefind.images.loader import Rejection, TooManyRejected
from surefind.images.matches import Matches, matches_of
from surefind.metrics import auroc, average_precision_at_r
from surefind.training.build import (
    divide_classes,
    make_encoder,
    make_images,
    make_loss,
    make_optimiser,
    make_variance_optimiser,
    start_from_images,
    train_mode,
)
from surefind.training.data import Batches, FeatureSource, PixelSource, Source, StepBatch
from surefind.training.gradient_cache import backward, in_pieces
from surefind.training.monitor import TrainingMonitor, TrainingStopped
from surefind.training.recipe import Recipe
from surefind.training.run_folder import NAN, RunFolder, RunLog, StepInfo
from surefind.training.sampling import NegativeCache, Rows

QUERIES_AT_ONCE = 1024  # in validation
ALL_STEPS = "every step was made"


class TrainingResult(NamedTuple):
    """Outcome of a run; the model itself is in the folder."""

    folder: Path
    steps: int
    recall: float  # R@1 of the saved model on the validation classes; NaN without such classes
    start_recall: float  # before the first step
    rejected: list[Rejection]
    ended: str  # reason


def train(
    splits: Splits,
    recipe: Recipe,
    output: str | Path,
    *,
    resume: bool = False,
    on_step: Callable[[StepInfo], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> TrainingResult:
    """Train an encoder and save the best model, by validation, to `output`.

    Args:
        splits: images to train on and to validate on.
        recipe: every setting of the run.
        output: model folder to write; state and log are in `output/run`.
        resume: continue the interrupted run in `output`; the result is bit-identical to that of
            a run without interruption.
        on_step: called with every line of the log.
        should_stop: called after every step; True saves the state and raises TrainingStopped.

    Raises:
        SurefindError: if there is nothing to train on, or a worker process died.
        TooManyRejected: if more images than `data.max_bad_share` cannot be read.
        TrainingStopped: if training diverged, or `should_stop` returned True.
        InvalidFile: if `output` cannot be written, is not empty, or cannot be resumed.
    """
    if not len(splits.train):
        raise SurefindError(
            f"{splits.name}: {splits.test.root} holds test classes only", fix="add the other half of the data set"
        )
    group = ProcessGroup.join()
    try:
        with torch.random.fork_rng():
            folder = RunFolder(Path(output), is_main=group.is_main)
            return _Run(splits, recipe, folder, group, on_step, should_stop).train(resume=resume)
    except (RuntimeError, ConnectionError, EOFError) as error:
        # Either torch's signal handler reports a dead worker, or the pipe to it breaks first.
        is_worker_crash = not isinstance(error, RuntimeError) or "DataLoader worker" in str(error)
        if recipe.data.workers == 0 or not is_worker_crash:
            raise
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # or torch's handler raises again
        raise SurefindError(
            f"a worker process that loads images died: {error}",
            fix="if memory ran out, use --resume with fewer workers: --set data.workers=0",
        ) from error
    except OSError as error:  # of the log or the folder: images never raise it
        raise InvalidFile(
            f"cannot write {output}: {error.strerror or error}",
            fix="free some space or make the folder writable, then use --resume",
        ) from error
    finally:
        group.leave()


class Validation(NamedTuple):
    """Measures by the distances of means; NaN if there is nothing to measure."""

    recall: float = NAN  # R@1
    map_at_r: float = NAN
    variance_auroc: float = NAN  # of a wrong first hit, by the variance of the query


def validate(embeddings: Embeddings, rows: Tensor, catalog: Catalog, matches: Matches) -> Validation:
    """Search each query that has a match among the other images.

    `rows` are the rows of the catalog that `embeddings` belong to.
    """
    means = embeddings.mean
    asks = torch.tensor(catalog.queries, dtype=torch.bool)[rows] if catalog.queries else None
    queries = torch.arange(len(rows)) if asks is None else torch.nonzero(asks).squeeze(1)
    gallery = torch.arange(len(rows)) if asks is None else torch.nonzero(~asks).squeeze(1)
    right, precision, answered = [], [], []
    for block in queries.split(QUERIES_AT_ONCE):
        distances = squared_distances(means[block], means[gallery])
        distances[block[:, None] == gallery] = torch.inf
        same = torch.from_numpy(matches.is_match(rows[block].numpy(), rows[gallery].numpy()))
        same &= block[:, None] != gallery
        counts = same.sum(dim=1)
        answerable = counts > 0
        most = int(counts.max()) if len(counts) else 0
        if most == 0:
            continue
        nearest = distances.topk(most, largest=False).indices
        hits = same.gather(1, nearest)[answerable]
        precision.append(average_precision_at_r(hits, counts[answerable]))
        right.append(hits[:, 0])
        answered.append(block[answerable])
    if not right:
        return Validation()
    correct = torch.cat(right)
    var = embeddings[torch.cat(answered)].to(torch.float64).var
    both = 0 < int(correct.sum()) < len(correct)
    return Validation(
        float(correct.double().mean()), float(torch.cat(precision).mean()), auroc(var, ~correct) if both else NAN
    )


@dataclass
class Progress:
    """State of a run besides weights, optimiser and cache."""

    phase: str = "main"
    step: int = 0  # done in this phase
    best: float = NAN  # measure of the saved model
    best_step: int = 0
    recall: float = NAN  # R@1 of the saved model
    start_recall: float = NAN
    empty_steps: int = 0  # in a row, without a triplet that violates its margin
    rejected: dict[str, Rejection] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        rejected = [tuple(rejection) for rejection in self.rejected.values()]
        return {**vars(self), "rejected": rejected}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        rejected = [Rejection(*row) for row in values["rejected"]]
        return cls(**{**values, "rejected": {r.path: r for r in rejected}})


class Phase(NamedTuple):
    """Consecutive steps with one set of classes and one set of parameters."""

    name: str
    rows: Rows
    offset: int  # steps of earlier phases
    steps: int
    source: Source
    optimiser: torch.optim.Adam


class _Run:
    def __init__(
        self,
        splits: Splits,
        recipe: Recipe,
        folder: RunFolder,
        group: ProcessGroup,
        on_step: Callable[[StepInfo], None] | None,
        should_stop: Callable[[], bool],
    ) -> None:
        self.splits, self.recipe, self.folder, self.group = splits, recipe, folder, group
        self.on_step, self.should_stop = on_step, should_stop
        self.matches: Matches = matches_of(splits.train, recipe.data.radius)
        self.loss = make_loss(recipe.loss)
        self.progress = Progress()
        self.log: RunLog | None = None
        self.started = time.perf_counter()

    def train(self, *, resume: bool) -> TrainingResult:
        recipe, state = self.recipe, None
        if resume:
            state = self.folder.resume(recipe, self.splits)
        else:
            self.folder.check_free()
        self.encoder = make_encoder(recipe).to(own_device())
        self.encoder.trained_with = class_hashes(self.splits.train.labels)
        config = self.encoder.config
        self.monitor = TrainingMonitor(floor=config.variance_floor if config.has_variance else 0.0)
        self.images = make_images(recipe, self.splits.train, self.encoder)
        if recipe.data.memory:
            self._reject(self.images.keep_in_memory())
        if state is None:
            self.folder.start(recipe)
        else:
            self.progress = Progress.from_dict(state["progress"])
            self.monitor.load_state_dict(state["monitor"])
            self.encoder.load_state_dict(state["model"])
        if self.group.is_main:
            self.log = RunLog(self.folder.run, after=self._steps_done())
        try:
            ended = self._run_phases(state)
        finally:
            if self.log is not None:
                self.log.close()
        progress, rejected = self.progress, list(self.progress.rejected.values())
        if self.group.is_main:
            with (self.folder.run / "rejected.csv").open("w", newline="") as file:
                csv.writer(file).writerows([("path", "reason"), *((r.path, r.reason) for r in rejected)])
        return TrainingResult(
            self.folder.output, self._steps_done(), progress.recall, progress.start_recall, rejected, ended
        )

    def _run_phases(self, state: dict[str, Any] | None) -> str:
        recipe, encoder, images = self.recipe, self.encoder, self.images
        views = recipe.augment.views
        fitted, held_out = divide_classes(recipe, self.splits.train)
        ended = ALL_STEPS
        if self.progress.phase == "main":
            if state is None:
                start_from_images(recipe, encoder, images, fitted)
            optimiser = make_optimiser(encoder, recipe.optimiser)
            source: Source = PixelSource(encoder, images, recipe.data.workers)
            if recipe.optimiser.freeze == "backbone":
                source = FeatureSource.compute(encoder, images, fitted, views=views)
            phase = Phase("main", fitted, 0, recipe.schedule.steps, source, optimiser)
            ended = self._run_phase(phase, state)
            state = None
        if recipe.variance.steps:
            part = recipe.variance
            if self.progress.phase == "main":
                if self.progress.best == self.progress.best:
                    encoder.load_state_dict(Encoder.load(self.folder.output).state_dict())
                self.progress.phase, self.progress.step = "variance", 0
                self.progress.best, self.progress.best_step = NAN, 0
                self.monitor.first_loss = None
            optimiser = make_variance_optimiser(encoder, lr=part.lr)
            if part.margin is not None:
                self.loss = make_loss(replace(recipe.loss, margin=part.margin))
            source = FeatureSource.compute(encoder, images, held_out, views=views)
            offset = recipe.schedule.steps
            self._run_phase(Phase("variance", held_out, offset, part.steps, source, optimiser), state)
        return ended

    def _run_phase(self, phase: Phase, state: dict[str, Any] | None) -> str:
        """Run the steps of a phase; return why it ended."""
        progress, schedule = self.progress, self.recipe.schedule
        batches = Batches(self.recipe, self.matches, phase.rows, phase.offset, phase.source, self.group)
        if state is not None:
            phase.optimiser.load_state_dict(state["optimiser"])
            batches.cache = state["cache"] and NegativeCache(*(t.numpy() for t in state["cache"]))
        elif phase.name == "main":
            self._validate(phase)
            progress.start_recall = progress.recall
            if self.encoder.has_variance and not self.recipe.variance.steps:
                progress.best = NAN  # an untrained variance is no candidate for the best model
        for batch in batches.between(progress.step, phase.steps):
            trained = self._step(phase, batch)
            progress.step += 1
            progress.empty_steps = 0 if trained else progress.empty_steps + 1
            if progress.empty_steps >= self.monitor.patience and self.recipe.batch.kind == "tuples":
                self._validate(phase)
                return "no triplet violates its margin any more"
            last = progress.step == phase.steps
            if last or progress.step % schedule.validate_every == 0:
                self._validate(phase)
            stopping = self.should_stop()
            waited = progress.step - progress.best_step
            most = schedule.patience * schedule.validate_every
            exhausted = phase.name == "main" and 0 < most <= waited
            if last or stopping or exhausted or progress.step % schedule.checkpoint_every == 0:
                cache = batches.cache
                self.folder.save_state(
                    self.recipe,
                    self.splits,
                    {
                        "progress": progress.as_dict(),
                        "monitor": self.monitor.state_dict(),
                        "model": self.encoder.state_dict(),
                        "optimiser": phase.optimiser.state_dict(),
                        "cache": cache and (torch.from_numpy(cache.rows), torch.from_numpy(cache.means)),
                    },
                )
            if stopping:
                raise TrainingStopped(
                    f"stopped after step {self._steps_done()}; everything is saved", fix="go on with --resume"
                )
            if exhausted:
                return f"no better validation for {waited} steps"
        return ALL_STEPS

    def _step(self, phase: Phase, batch: StepBatch) -> bool:
        """Make one step of the optimiser; return False if the batch has no triplet."""
        number = phase.offset + self.progress.step
        self._reject(batch.loaded.rejected)
        plan = batch.plan.keep(self.group.gather_array(batch.loaded.positions + batch.first))
        if not plan.has_triplet():
            if self.recipe.batch.kind == "balanced":
                self.monitor.count(["no batch has a triplet"], number + 1)
            return False
        torch.manual_seed(self.recipe.seed * 1_000_003 + number)  # of dropout
        train_mode(self.encoder, batch_norm=self.recipe.optimiser.batch_norm)
        arguments = plan.arguments(self.encoder.device)
        embed: Callable[[Tensor], Embeddings] = phase.source.embed
        if isinstance(phase.source, PixelSource) and self.recipe.optimiser.batch_norm == "frozen":
            embed = in_pieces(embed, self.encoder.cores * self.encoder.largest_batch)  # fits the caches of a CPU
        phase.optimiser.zero_grad()
        try:
            value, embeddings = backward(
                embed,
                batch.loaded.inputs,
                lambda embeddings: self.loss(embeddings, **arguments),
                chunk=self.recipe.batch.chunk,
                group=self.group,
                module=self.encoder,
            )
        except InvalidArgument as error:
            raise TrainingStopped(
                f"step {number + 1}: the network's output is not valid: {error.problem}",
                fix="lower optimiser.lr, or set optimiser.clip = 1.0",
            ) from error
        parameters = [p for group in phase.optimiser.param_groups for p in group["params"]]
        self.group.add_gradients(parameters)
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        self.monitor.check_step(loss=value, gradient=norm, embeddings=embeddings, step=number + 1)
        if self.recipe.optimiser.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(parameters, self.recipe.optimiser.clip, norm)
        # The rates decay by a constant factor per epoch: a function of the step alone.
        part = self.recipe.batch
        per_step = part.tuples if part.kind == "tuples" else part.classes * part.images
        epoch = self.progress.step * per_step // len(phase.rows)
        for rates in phase.optimiser.param_groups:
            rates["lr"] = rates["initial_lr"] * self.recipe.optimiser.decay**epoch
        phase.optimiser.step()
        if (number + 1) % self.recipe.schedule.log_every == 0 or number == 0:
            info, lr = self.loss.diagnose(embeddings, **arguments), phase.optimiser.param_groups[0]["lr"]
            self._log(
                StepInfo(number + 1, float(value), info.win_rate, info.median_std, info.triplets, float(norm), lr)
            )
        return True

    def _validate(self, phase: Phase) -> None:
        """Measure on the validation classes; save the model if it is the best so far.

        The best is that of recall; in the variance phase, of the AUROC of the variance; with
        `schedule.keep_by = "both"`, of MAP@R plus that AUROC.
        """
        progress, val = self.progress, self.splits.val
        if len(val) == 0:
            progress.best_step = progress.step
            self._save_model()
            return
        encoded = self.encoder.encode_all(val.files, max_bad_share=1.0)
        self._reject([r._replace(row=-1) for r in encoded.rejected])
        matches = matches_of(val, self.recipe.data.radius)
        found = validate(encoded.embeddings, encoded.rows, val, matches)
        self._log(StepInfo(phase.offset + progress.step, **found._asdict()))
        if phase.name == "variance":
            measure = found.variance_auroc
        elif self.recipe.schedule.keep_by == "both":
            measure = found.map_at_r + found.variance_auroc
        else:
            measure = found.recall
        if not measure <= progress.best:
            progress.best, progress.best_step = measure, progress.step
            progress.recall = found.recall
            self._save_model()

    def _save_model(self) -> None:
        progress = self.progress
        facts = {
            "data set": self.splits.name,
            "training images": len(self.splits.train),
            "loss": self.recipe.loss.name,
            "steps": progress.step,
            "R@1 on validation classes": f"{progress.recall:.4f}",
        }
        if self.group.is_main:
            self.encoder.save(self.folder.output, card=facts)

    def _log(self, info: StepInfo) -> None:
        if self.log is not None:
            info = info._replace(seconds=time.perf_counter() - self.started)
            self.log.write(info)
            if self.on_step is not None:
                self.on_step(info)

    def _reject(self, rejected: Iterable[Rejection]) -> None:
        """Record unreadable images; raise if there are too many."""
        known = self.progress.rejected
        known |= {rejection.path: rejection for rejection in rejected}
        total, share = len(self.splits.train) + len(self.splits.val), self.recipe.data.max_bad_share
        if len(known) > share * total + 1e-9:
            raise TooManyRejected(list(known.values()), total=total, max_bad_share=share)

    def _steps_done(self) -> int:
        in_main = self.progress.phase == "main"
        return self.progress.step + (0 if in_main else self.recipe.schedule.steps)
