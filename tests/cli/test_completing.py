"""The Tab key: commands, options and values, in the shells people use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands_walked import COMMANDS

from surefind.cli import completing
from surefind.cli.completing import OFFERS, datasets, recipe_names
from surefind.cli.parts import PARTS
from surefind.datasets.sources import READERS
from surefind.encoders.onnx.opening import RUNTIMES
from surefind.engines.engine import KINDS
from surefind.engines.opening import SCHEMES
from surefind.functional.ranking import RANKINGS
from surefind.reports.reproduce.plan import DATASETS
from surefind.search.index import DUPLICATES

SUREFIND = Path(sys.executable).with_name("surefind")


def asked(shell: str, typed: str) -> str:
    """What surefind tells a shell when Tab is pressed after what was typed."""
    words = typed.split(" ")
    known = {
        "_SUREFIND_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": typed,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run([SUREFIND], env=os.environ | known, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_are_offered(shell: str):
    offered = asked(shell, "surefind ")
    assert all(name in offered for name in ("train", "search", "figures", "doctor"))


def test_options_and_their_values_are_offered():
    assert {"--quiet", "--debug", "--recipe"} <= set(asked("bash", "surefind train --").split())
    assert asked("bash", "surefind index m p --kind h").split() == ["hnsw"]
    assert asked("bash", "surefind figures loss ca").split() == ["calibration"]
    assert asked("bash", "surefind figures loss --format s").split() == ["svg"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_ask(shell: str):
    known = {"_SUREFIND_COMPLETE": f"source_{shell}"}
    done = subprocess.run([SUREFIND], env=os.environ | known, capture_output=True, text=True)
    assert done.returncode == 0
    assert f"_SUREFIND_COMPLETE=complete_{shell}" in done.stdout


def test_names_that_are_offered_are_those_that_are_known():
    assert {name.rstrip(":") for name in completing.DATASETS} == set(READERS)
    assert completing.PARTS == PARTS
    assert completing.KINDS[0] == "auto" and completing.KINDS[1:] == tuple(KINDS)
    assert completing.RUNTIMES == RUNTIMES
    assert set(completing.RANKINGS) == set(RANKINGS)
    assert {name.removesuffix("://") for name in completing.ENGINES} == set(SCHEMES)
    assert set(OFFERS["reproduce.dataset"]("")) == set(DATASETS)
    assert set(OFFERS["index.duplicates"]("")) == set(DUPLICATES)


def test_every_offer_belongs_to_a_parameter():
    parameters = set()
    for command in COMMANDS.values():
        own = command.callback.__name__
        parameters |= {f"{own}.{p.name}" for p in command.params} | {p.name for p in command.params}
    assert set(OFFERS) <= parameters


def test_recipes_are_offered_by_their_beginning():
    assert "bayes-centred" in recipe_names("bayes")
    assert all(name.startswith("bayes") for name in recipe_names("bayes"))


def test_data_is_offered_by_name_and_from_the_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cupboard" / "inner").mkdir(parents=True)
    (tmp_path / "cubes.csv").touch()
    (tmp_path / "cuts.txt").touch()
    (tmp_path / ".hidden").mkdir()
    assert datasets("cu") == ["cub200:", "cubes.csv", "cupboard/"]
    assert datasets("cupboard/") == ["cupboard/inner/"]
    assert ".hidden/" not in datasets("")
    assert ".hidden/" in datasets(".h")
    assert datasets("nowhere/x") == []
