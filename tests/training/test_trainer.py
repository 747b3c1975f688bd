"""Whole runs on small pictures, and validation against a plain loop."""

import csv
import math
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp

import surefind as sf
from surefind.datasets import open_dataset
from surefind.encoders.encoder import Encoder
from surefind.encoders.serialization import class_hashes
from surefind.errors import InvalidFile, SurefindError
from surefind.images.catalog import Catalog
from surefind.images.loader import TooManyRejected
from surefind.images.matches import matches_of
from surefind.training import trainer as module
from surefind.training.build import make_encoder
from surefind.training.monitor import TrainingStopped
from surefind.training.run_folder import RunLog, read_log
from surefind.training.sampling import choose_cached_rows
from surefind.training.trainer import Validation, train, validate

LOSSES = {
    "triplet": ({"name": "triplet"}, {"family": "point"}),
    "tripreg": ({"name": "triplet-regression"}, {"family": "gaussian"}),
    "gauss": ({"name": "bayesian"}, {"family": "gaussian"}),
    "centred": ({"name": "bayesian", "centred": True}, {"family": "gaussian"}),
    "vmf": ({"name": "bayesian"}, {"family": "von-mises-fisher"}),
}


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_trains_to_a_model_that_loads(name: str, splits, recipe, tmp_path):
    loss, encoder = LOSSES[name]
    short = recipe(loss=loss, encoder=encoder, schedule={"steps": 3})
    result = train(splits, short, tmp_path / "model")
    assert result.steps == 3
    assert 0 <= result.start_recall <= 1
    assert 0 <= result.recall <= 1
    loaded = Encoder.load(tmp_path / "model")
    assert len(loaded.encode(splits.test.files[:3])) == 3
    assert loaded.has_variance == (name != "triplet")


def test_training_learns(splits, recipe, tmp_path):
    """From chance to nearly always right, on pictures that are easy."""
    longer = recipe(schedule={"steps": 30, "validate_every": 30}, optimiser={"lr": 3e-3}, data={"memory": True})
    train(splits, longer, tmp_path / "model")
    log = [info for info in read_log(tmp_path / "model/run/log.csv") if info.loss == info.loss]
    assert log[-1].loss < 0.5 * log[0].loss
    assert log[-1].win_rate > 0.95


def test_the_run_folder_holds_recipe_log_state_and_model(trained):
    folder, seen = trained
    run = folder / "run"
    assert {"recipe.toml", "log.csv", "state.pt", "rejected.csv", "tensorboard"} <= {p.name for p in run.iterdir()}
    log = read_log(run / "log.csv")
    assert [info.step for info in log] == [info.step for info in seen]
    assert [info.step for info in log if info.recall == info.recall] == [0, 4, 8]
    assert {"config.json", "model.safetensors", "README.md"} <= {p.name for p in folder.iterdir()}


def test_the_cache_is_filled_at_its_cadence(splits, recipe, tmp_path, monkeypatch):
    filled = []

    def count_fill(matches, rows, *, size, seed, step):
        filled.append(step)
        return choose_cached_rows(matches, rows, size=size, seed=seed, step=step)

    monkeypatch.setattr("surefind.training.data.choose_cached_rows", count_fill)
    mined = recipe(
        batch={"kind": "tuples", "tuples": 5, "negatives": 3},
        mining={"cache": 30, "every": 3},
        loss={"margin": 4.0},  # every triplet violates
        schedule={"steps": 10},
    )
    train(splits, mined, tmp_path / "model")
    assert filled == [0, 3, 6, 9]


def test_one_bad_picture_is_left_out_counted_and_named(pictures, recipe, tmp_path):
    copy = shutil.copytree(pictures, tmp_path / "copy")
    bad = copy / "class00" / "2.png"
    bad.write_bytes(bad.read_bytes()[:100])
    allowing = recipe(data={"max_bad_share": 0.1}, batch={"classes": 12, "images": 5})
    result = train(open_dataset(copy), allowing, tmp_path / "model")
    assert [rejection.path for rejection in result.rejected] == [str(bad)]
    with (tmp_path / "model/run/rejected.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["path", "reason"]
    assert len(rows) == 2
    assert rows[1][0] == str(bad)


@pytest.mark.parametrize("memory", [False, True])
def test_too_many_bad_pictures_stop_the_run(pictures, recipe, tmp_path, memory: bool):
    copy = shutil.copytree(pictures, tmp_path / "copy")
    for bad in copy.glob("*/2.png"):
        bad.write_bytes(b"")
    with pytest.raises(TooManyRejected, match="cannot be used"):
        train(open_dataset(copy), recipe(data={"memory": memory}), tmp_path / "model")


def test_memory_and_worker_processes_train_the_same(splits, recipe, tmp_path):
    weights = []
    for name, data in {"plain": {}, "memory": {"memory": True}, "workers": {"workers": 1}}.items():
        chosen = recipe(data=data, augment={"use": True}, schedule={"steps": 3})
        train(splits, chosen, tmp_path / name)
        weights.append(Encoder.load(tmp_path / name).state_dict())
    for other in weights[1:]:
        assert all(torch.equal(weights[0][key], other[key]) for key in other)


def test_a_frozen_backbone_stays_as_it_was(splits, recipe, tmp_path):
    frozen = recipe(optimiser={"freeze": "backbone", "lr": 1e-2}, augment={"use": True, "views": 2})
    result = train(splits, frozen, tmp_path / "model")
    before = make_encoder(frozen).backbone.state_dict()
    state = torch.load(tmp_path / "model/run/state.pt", weights_only=True)["model"]
    assert all(torch.equal(state[f"backbone.{key}"], value) for key, value in before.items())
    start = make_encoder(frozen).mean_head.linear.weight
    assert not torch.equal(state["mean_head.linear.weight"], start)
    assert result.steps == 8


def test_the_second_phase_trains_only_the_variance_on_other_classes(splits, recipe, tmp_path):
    two = recipe(variance={"held_out": 0.4, "steps": 8, "lr": 1e-2})
    one = recipe(variance={"held_out": 0.4, "steps": 1, "lr": 1e-12})
    rows = []
    for name, chosen in (("two", two), ("one", one)):
        result = train(splits, chosen, tmp_path / name)
        rows.append(result.steps)
    assert rows == [16, 9]
    encoder = Encoder.load(tmp_path / "two")
    assert encoder.trained_with == class_hashes(splits.train.labels)
    trained, before = encoder.state_dict(), Encoder.load(tmp_path / "one").state_dict()
    changed = {key for key in trained if not torch.allclose(trained[key], before[key], atol=1e-7)}
    assert changed
    assert all(key.startswith("variance_head.") for key in changed)


FALLING = [(0.9, 0.5, 0.5), (0.8, 0.5, 0.5), (0.7, 0.4, 0.7)]
PHASES = [(0.9, 0.5, 0.9), *3 * [(0.9, 0.5, 0.3)], (0.8, 0.5, 0.6), (0.9, 0.5, 0.5)]


@pytest.mark.parametrize(
    ("tables", "measures", "kept"),
    [
        ({"loss": {"name": "triplet"}, "encoder": {"family": "point"}}, FALLING, 0.9),
        ({}, FALLING, 0.8),  # the start is not kept where a variance has to be learned
        ({"schedule": {"keep_by": "both"}}, FALLING, 0.7),
        ({"variance": {"steps": 12}}, PHASES, 0.8),  # by the AUROC of the variance
    ],
)
def test_the_kept_model_is_the_best_by_the_measure_of_the_recipe(
    tables: dict, measures: list, kept: float, splits, recipe, tmp_path, monkeypatch
):
    found = iter(measures)
    monkeypatch.setattr("surefind.training.trainer.validate", lambda *_: Validation(*next(found)))
    result = train(splits, recipe(**tables), tmp_path / "model")
    assert (result.start_recall, result.recall) == (0.9, kept)


def test_without_validation_classes_every_class_is_trained_on_and_the_last_model_kept(pictures, recipe, tmp_path):
    splits = open_dataset(pictures, val_share=0)
    assert len(splits.val) == 0
    train(splits, recipe(schedule={"patience": 1}), tmp_path / "model")
    last = torch.load(tmp_path / "model/run/state.pt", weights_only=True)["model"]
    kept = Encoder.load(tmp_path / "model").state_dict()
    assert all(torch.equal(kept[key], last[key]) for key in kept)


def test_learning_rates_fall_by_a_constant_factor_each_epoch(splits, recipe, tmp_path):
    falling = recipe(optimiser={"lr": 1e-3, "decay": 0.5}, batch={"kind": "balanced", "classes": 4, "images": 3})
    train(splits, falling, tmp_path / "model")
    log = [row for row in read_log(tmp_path / "model/run/log.csv") if row.lr == row.lr]
    epochs = [(row.step - 1) * 12 // len(splits.train) for row in log]
    assert epochs[-1] >= 2
    assert [row.lr for row in log] == pytest.approx([1e-3 * 0.5**epoch for epoch in epochs])


@pytest.mark.parametrize(("patience", "steps", "ended"), [(0, 12, "every step"), (3, 8, "no better validation")])
def test_validation_without_progress_stops_early(splits, recipe, tmp_path, patience: int, steps: int, ended: str):
    """After the first validation behind the start, and three more; a patience of 0 never stops."""
    schedule = {"steps": 12, "validate_every": 2, "patience": patience}
    still = recipe(optimiser={"lr": 1e-12}, schedule=schedule)
    result = train(splits, still, tmp_path / "model")
    assert result.steps == steps
    assert result.ended.startswith(ended)


@pytest.mark.parametrize("start", ["random", "pca"])
def test_free_means_start_at_the_length_of_the_prior(start: str, splits, recipe, tmp_path):
    free = recipe(
        encoder={"unit_means": False, "unit_pooling": False, "start": start},
        optimiser={"lr": 1e-12},
        schedule={"steps": 1},
    )
    train(splits, free, tmp_path / "model")
    mean = Encoder.load(tmp_path / "model").encode(splits.train.files).mean
    assert mean.square().sum(dim=1).mean().item() == pytest.approx(1, rel=0.01)


def test_a_far_too_large_learning_rate_stops_early_and_keeps_the_good_model(pictures, splits, recipe, tmp_path):
    wild = recipe(optimiser={"lr": 1e6}, schedule={"steps": 100, "validate_every": 50}, loss={"name": "bayesian"})
    with pytest.raises(TrainingStopped) as caught:
        train(splits, wild, tmp_path / "model")
    assert "optimiser.lr" in caught.value.fix
    log = read_log(tmp_path / "model/run/log.csv")
    assert log[-1].step <= 20
    assert len(Encoder.load(tmp_path / "model").encode([next(pictures.glob("*/*.png"))])) == 1


def test_classes_to_test_on_alone_cannot_be_trained_on(splits, recipe, tmp_path):
    with pytest.raises(SurefindError, match="holds test classes only"):
        train(replace(splits, train=splits.train.select([])), recipe(), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_folder_that_holds_something_is_not_overwritten(splits, recipe, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "precious.txt").write_text("mine")
    with pytest.raises(InvalidFile, match="not empty"):
        train(splits, recipe(), tmp_path / "model")
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["precious.txt"]


def test_a_dead_worker_process_is_an_error_not_a_hang(splits, recipe, tmp_path):
    killed = []

    def kill_a_worker(info):  # once: torch raises for every death, wherever it happens to be
        if info.step >= 4 and not killed:
            killed.extend(child.pid for child in mp.active_children())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    endless = recipe(data={"workers": 1}, schedule={"steps": 10_000, "validate_every": 10_000})
    with pytest.raises(SurefindError, match="loads images died") as caught:
        train(splits, endless, tmp_path / "model", on_step=kill_a_worker)
    assert "data.workers=0" in caught.value.fix
    resumed = recipe(data={"workers": 0}, schedule={"steps": 10, "validate_every": 10_000})
    assert train(splits, resumed, tmp_path / "model", resume=True).steps >= 10


def test_a_full_disk_is_one_clear_error_and_the_model_before_it_stays(splits, recipe, tmp_path, monkeypatch):
    write = RunLog.write

    def full(self, info):
        if info.step >= 3:
            raise OSError(28, "No space left on device")
        write(self, info)

    monkeypatch.setattr(RunLog, "write", full)
    with pytest.raises(InvalidFile, match="No space left on device") as caught:
        train(splits, recipe(), tmp_path / "model")
    assert "--resume" in caught.value.fix
    monkeypatch.undo()
    assert train(splits, recipe(), tmp_path / "model", resume=True).steps == 8


def naive(batch: sf.Gaussians, catalog: Catalog, rows: list[int]) -> tuple[float, float, float]:
    mean = batch.mean.double().numpy()
    asks = catalog.queries or (True,) * len(catalog)
    found = catalog.queries and [not query for query in catalog.queries]
    found = found or (True,) * len(catalog)
    hits, precisions, variances = [], [], []
    for i, row in enumerate(rows):
        others = [j for j, other in enumerate(rows) if other != row and found[other]]
        matching = [j for j in others if catalog.labels[rows[j]] == catalog.labels[row]]
        if not asks[row] or not matching:
            continue
        order = sorted(others, key=lambda j: np.square(mean[i] - mean[j]).sum())
        precision, so_far = 0.0, 0
        for place, j in enumerate(order[: len(matching)], start=1):
            if j in matching:
                so_far += 1
                precision += so_far / place
        hits.append(order[0] in matching)
        precisions.append(precision / len(matching))
        variances.append(float(batch.var[i]))
    wrong = [v for v, hit in zip(variances, hits, strict=True) if not hit]
    right = [v for v, hit in zip(variances, hits, strict=True) if hit]
    pairs = [(w > r) + 0.5 * (w == r) for w in wrong for r in right]
    return np.mean(hits), np.mean(precisions), np.mean(pairs)


@pytest.mark.parametrize("with_roles", [False, True])
def test_measures_are_those_of_a_plain_loop(with_roles: bool, monkeypatch):
    monkeypatch.setattr(module, "QUERIES_AT_ONCE", 7)
    random = torch.Generator().manual_seed(0)
    labels = (*(f"c{i % 9}" for i in range(40)), "alone")
    catalog = Catalog(
        Path(),
        tuple(f"{i}.png" for i in range(41)),
        labels=labels,
        queries=tuple(i % 4 == 0 for i in range(41)) if with_roles else (),
    )
    rows = [row for row in range(41) if row not in (4, 17)]  # two could not be read
    mean = torch.randn(len(rows), 3, generator=random)
    batch = sf.Gaussians(mean, 0.1 + torch.rand(len(rows), generator=random))
    found = validate(batch, torch.tensor(rows), catalog, matches_of(catalog))
    assert found == pytest.approx(naive(batch, catalog, rows))


def test_without_an_answerable_query_there_is_nothing_to_measure():
    catalog = Catalog(Path(), ("a", "b"), labels=("x", "y"))
    batch = sf.Gaussians(torch.eye(2), torch.ones(2))
    found = validate(batch, torch.arange(2), catalog, matches_of(catalog))
    assert all(math.isnan(value) for value in found)
