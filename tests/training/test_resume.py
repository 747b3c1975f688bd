"""Interrupted and resumed runs end bit-identical to runs without interruption."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from surefind.datasets import open_dataset
from surefind.errors import InvalidFile
from surefind.training.monitor import TrainingStopped
from surefind.training.trainer import train

MINED = {
    "batch": {"kind": "tuples", "tuples": 5, "negatives": 3},
    "mining": {"cache": 30, "every": 5},
    "loss": {"margin": 4.0},  # every triplet violates
}
KINDS = {
    "balanced": {},
    "augmented, dropout": {"augment": {"use": True}, "encoder": {"head_dropout": 0.3}},
    "tuples": MINED,
    "frozen": {"optimiser": {"freeze": "backbone"}, "augment": {"use": True, "views": 2}},
    "variance phase": {"variance": {"held_out": 0.4, "steps": 6}},
}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    state = torch.load(folder / "run" / "state.pt", weights_only=True)
    return state["model"] | {
        "optimiser": torch.cat(
            [value.flatten().double() for entry in state["optimiser"]["state"].values() for value in entry.values()]
        )
    }


def assert_same(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    assert [key for key in first if not torch.equal(first[key], second[key])] == []
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


@pytest.fixture(scope="module", params=KINDS)
def whole(request, splits, recipe, tmp_path_factory):
    """A kind of training, its recipe, and the folder of a run without interruption."""
    schedule = {"steps": 12, "checkpoint_every": 4, "validate_every": 6}
    chosen = recipe(**{"schedule": schedule} | KINDS[request.param])
    folder = tmp_path_factory.mktemp("whole")
    train(splits, chosen, folder)
    return request.param, chosen, folder


def stop_and_resume(splits, chosen, folder: Path, *, stop_after: int) -> None:
    made = iter(range(1, 1 + stop_after))
    with pytest.raises(TrainingStopped, match="everything is saved"):
        train(splits, chosen, folder, should_stop=lambda: next(made) == stop_after)
    train(splits, chosen, folder, resume=True)


def test_a_stopped_run_ends_bit_identical_to_one_without_interruption(whole, splits, tmp_path):
    kind, chosen, folder = whole
    stop_after = 15 if kind == "variance phase" else 7  # in the second phase, where there is one
    stop_and_resume(splits, chosen, tmp_path, stop_after=stop_after)
    assert_same(folder, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("stop_after", [2, 3, 8, 11])
def test_it_does_not_matter_at_which_step_a_run_was_stopped(whole, splits, tmp_path, stop_after):
    _, chosen, folder = whole
    stop_and_resume(splits, chosen, tmp_path, stop_after=stop_after)
    assert_same(folder, tmp_path)


def start(pictures: Path, toml: Path, model: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "surefind", "train", str(pictures), "-o", str(model)]
    return subprocess.Popen(
        [*command, "--recipe", str(toml)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for_lines(run: subprocess.Popen[bytes], model: Path, lines: int) -> None:
    log = model / "run" / "log.csv"
    while not log.exists() or log.read_text().count("\n") < lines:
        assert run.poll() is None
        time.sleep(0.02)


def test_a_killed_run_ends_bit_identical_to_one_without_interruption(pictures, splits, recipe, tmp_path):
    toml = tmp_path / "recipe.toml"
    chosen = recipe(**MINED, schedule={"steps": 80, "checkpoint_every": 10, "validate_every": 40})
    toml.write_text(chosen.to_toml())
    run = start(pictures, toml, tmp_path / "parts")
    wait_for_lines(run, tmp_path / "parts", 30)
    run.send_signal(signal.SIGKILL)
    run.wait()
    reached = torch.load(tmp_path / "parts/run/state.pt", weights_only=True)["progress"]["step"]
    assert 0 < reached < 80
    train(splits, chosen, tmp_path / "parts", resume=True)
    train(splits, chosen, tmp_path / "whole")
    assert_same(tmp_path / "whole", tmp_path / "parts")
    lines = [
        [line.split(",")[:5] for line in (tmp_path / name / "run/log.csv").read_text().splitlines()]
        for name in ("whole", "parts")
    ]
    assert lines[0] == lines[1]  # the log too, but for its times


@pytest.mark.slow
def test_sigterm_saves_the_state_and_exits_with_130(pictures, recipe, tmp_path):
    toml = tmp_path / "recipe.toml"
    never = 100_000
    endless = recipe(schedule={"steps": never, "checkpoint_every": never, "validate_every": never})
    toml.write_text(endless.to_toml())
    run = start(pictures, toml, tmp_path / "model")
    wait_for_lines(run, tmp_path / "model", 10)
    run.send_signal(signal.SIGTERM)
    assert run.wait() == 130
    assert (tmp_path / "model/run/state.pt").exists()


def test_resuming_with_another_recipe_or_other_images_is_refused(trained, pictures, splits, recipe, tmp_path):
    folder, _ = trained
    with pytest.raises(InvalidFile, match="optimiser.lr = 0.001"):
        train(splits, recipe(optimiser={"lr": 0.1}), folder, resume=True)
    with pytest.raises(InvalidFile, match="other images"):
        train(open_dataset(pictures, val_share=0.0), recipe(), folder, resume=True)
    with pytest.raises(InvalidFile, match="nothing to resume"):
        train(splits, recipe(), tmp_path / "elsewhere", resume=True)


def test_a_finished_run_can_be_made_longer(trained, splits, recipe, tmp_path):
    train(splits, recipe(schedule={"steps": 6}), tmp_path / "parts")
    train(splits, recipe(), tmp_path / "parts", resume=True)
    first, second = weights(trained[0]), weights(tmp_path / "parts")
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_empty_steps_are_counted_across_an_interruption(splits, recipe, tmp_path):
    """Ten steps in a row without a violating triplet end a run, resumed or not."""
    empty = recipe(
        batch={"kind": "tuples", "tuples": 5, "negatives": 3},
        mining={"cache": 30, "every": 50},
        loss={"name": "triplet", "margin": -1e9},
        encoder={"family": "point"},
        schedule={"steps": 50, "validate_every": 100},
    )
    asked = iter(range(100))
    with pytest.raises(TrainingStopped):
        train(splits, empty, tmp_path / "model", should_stop=lambda: next(asked) == 5)
    result = train(splits, empty, tmp_path / "model", resume=True)
    assert (result.steps, result.ended) == (10, "no triplet violates its margin any more")
