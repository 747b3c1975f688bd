"""The Tab key: commands, options and values, in the shells people use."""

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from commands_walked import COMMANDS

from surefind.cli import options
from surefind.datasets.registry import READERS
from surefind.encoders.onnx.runtime import RUNTIMES
from surefind.engines.base import KINDS
from surefind.engines.registry import SCHEMES
from surefind.functional.ranking import RANKINGS

SUREFIND = Path(sys.executable).with_name("surefind")


def completions(shell: str, typed: str) -> str:
    """Return what a shell gets when Tab is pressed after `typed`."""
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
    offered = completions(shell, "surefind ")
    assert all(name in offered for name in ("train", "search", "figures", "doctor"))


def test_options_and_their_values_are_offered():
    assert {"--quiet", "--debug", "--recipe"} <= set(
        completions("bash", "surefind train --").split()
    )
    assert completions("bash", "surefind index m p --kind h").split() == ["hnsw"]
    assert completions("bash", "surefind check cu").split() == ["cub200:"]
    assert completions("bash", "surefind figures loss ca").split() == ["calibration"]
    assert completions("bash", "surefind figures loss --format s").split() == ["svg"]


def test_names_that_are_offered_are_those_that_are_known():
    assert {name.rstrip(":") for name in options.DATASETS} == set(READERS)
    assert get_args(options.Kind) == ("auto", *KINDS)
    assert get_args(options.Runtime) == tuple(RUNTIMES)
    assert set(get_args(options.Ranking)) == set(RANKINGS)
    assert {name.removesuffix("://") for name in options.ENGINES} == set(SCHEMES)
    named = {parameter.name for command in COMMANDS.values() for parameter in command.params}
    assert set(options.COMPLETIONS) <= named
