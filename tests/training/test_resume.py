"""2N steps, and N steps, a kill, and N more, end in the same bits."""

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
            [
                value.flatten().double()
                for entry in state["optimiser"]["state"].values()
                for value in entry.values()
            ]
        )
    }


def assert_same(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    assert [key for key in first if not torch.equal(first[key], second[key])] == []
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


@pytest.mark.parametrize("stop_after", [2, 3, 7, 11])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(
    kind: str, stop_after: int, pictures, recipe, tmp_path
):
    chosen = recipe(**{"schedule": {"steps": 12, "checkpoint_every": 4}} | KINDS[kind])
    train(open_dataset(pictures), chosen, tmp_path / "whole")
    made = 0

    def stop() -> bool:
        nonlocal made
        made += 1
        return made == stop_after

    with pytest.raises(TrainingStopped, match="everything is saved"):
        train(open_dataset(pictures), chosen, tmp_path / "parts", should_stop=stop)
    train(open_dataset(pictures), chosen, tmp_path / "parts", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "parts")


def start(pictures: Path, toml: Path, model: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "surefind", "train", str(pictures), "-o", str(model)]
    return subprocess.Popen(
        [*command, "--recipe", str(toml), *more],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for_lines(run: subprocess.Popen[bytes], model: Path, lines: int) -> None:
    log = model / "run" / "log.csv"
    while not log.exists() or log.read_text().count("\n") < lines:
        assert run.poll() is None
        time.sleep(0.02)


def test_a_killed_run_ends_as_if_it_had_not_been(pictures, recipe, tmp_path):
    toml = tmp_path / "recipe.toml"
    chosen = recipe(**MINED, schedule={"steps": 200, "checkpoint_every": 10, "validate_every": 100})
    toml.write_text(chosen.to_toml())
    assert start(pictures, toml, tmp_path / "whole").wait() == 0
    run = start(pictures, toml, tmp_path / "parts")
    wait_for_lines(run, tmp_path / "parts", 60)
    run.send_signal(signal.SIGKILL)
    run.wait()
    reached = torch.load(tmp_path / "parts/run/state.pt", weights_only=True)["progress"]["step"]
    assert 0 < reached < 200
    assert start(pictures, toml, tmp_path / "parts", "--resume").wait() == 0
    assert_same(tmp_path / "whole", tmp_path / "parts")
    lines = [
        [line.split(",")[:5] for line in (tmp_path / name / "run/log.csv").read_text().splitlines()]
        for name in ("whole", "parts")
    ]
    assert lines[0] == lines[1]  # the log too, but for its times


def test_a_polite_kill_saves_and_says_how_to_go_on(pictures, recipe, tmp_path):
    toml = tmp_path / "recipe.toml"
    never = 100_000
    endless = recipe(schedule={"steps": never, "checkpoint_every": never, "validate_every": never})
    toml.write_text(endless.to_toml())
    run = start(pictures, toml, tmp_path / "model")
    wait_for_lines(run, tmp_path / "model", 10)
    run.send_signal(signal.SIGTERM)
    assert run.wait() == 130
    assert (tmp_path / "model/run/state.pt").exists()


def test_resuming_with_another_recipe_or_other_images_is_refused(pictures, recipe, tmp_path):
    train(open_dataset(pictures), recipe(), tmp_path / "model")
    with pytest.raises(InvalidFile, match="optimiser.lr = 0.001"):
        train(
            open_dataset(pictures), recipe(optimiser={"lr": 0.1}), tmp_path / "model", resume=True
        )
    others = open_dataset(pictures, val_share=0.0)
    with pytest.raises(InvalidFile, match="other images"):
        train(others, recipe(), tmp_path / "model", resume=True)
    with pytest.raises(InvalidFile, match="nothing to resume"):
        train(open_dataset(pictures), recipe(), tmp_path / "elsewhere", resume=True)


def test_a_finished_run_can_be_made_longer(pictures, recipe, tmp_path):
    train(open_dataset(pictures), recipe(schedule={"steps": 6}), tmp_path / "parts")
    train(open_dataset(pictures), recipe(schedule={"steps": 10}), tmp_path / "parts", resume=True)
    train(open_dataset(pictures), recipe(schedule={"steps": 10}), tmp_path / "whole")
    first, second = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_empty_steps_are_counted_across_an_interruption(pictures, recipe, tmp_path):
    """No triplet violates its margin: ten such steps in a row end a run, resumed or not."""
    empty = recipe(
        batch={"kind": "tuples", "tuples": 5, "negatives": 3},
        mining={"cache": 30, "every": 50},
        loss={"name": "triplet", "margin": -1e9},
        encoder={"family": "point"},
        schedule={"steps": 50, "validate_every": 100},
    )
    splits = open_dataset(pictures)
    asked = iter(range(100))
    with pytest.raises(TrainingStopped):
        train(splits, empty, tmp_path / "model", should_stop=lambda: next(asked) == 5)
    result = train(splits, empty, tmp_path / "model", resume=True)
    assert (result.steps, result.ended) == (10, "no triplet violates its margin any more")
