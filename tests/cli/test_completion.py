"""Completion of commands, options and values."""

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

from commands_walked import COMMANDS

from surefind.cli import options
from surefind.datasets.registry import READERS
from surefind.encoders.open import RUNTIMES
from surefind.engines.base import KINDS
from surefind.engines.registry import SCHEMES
from surefind.functional.ranking import RANKINGS

SUREFIND = Path(sys.executable).with_name("surefind")


def completions(typed: str) -> list[str]:
    """Return what bash gets when Tab is pressed after `typed`."""
    known = {"_SUREFIND_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1)}
    done = subprocess.run([SUREFIND], env=os.environ | known, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_commands_options_and_values_are_offered():
    assert {"train", "search", "figures", "doctor"} <= set(completions("surefind "))
    assert {"--quiet", "--debug", "--recipe"} <= set(completions("surefind train --"))
    assert completions("surefind index p --kind h") == ["hnsw"]
    assert completions("surefind check cu") == ["cub200:"]
    assert completions("surefind figures loss ca") == ["calibration"]


def test_names_that_are_offered_are_those_that_are_known():
    assert {name.rstrip(":") for name in options.DATASETS} == set(READERS)
    assert get_args(options.Kind) == ("auto", *KINDS)
    assert get_args(options.Runtime) == tuple(RUNTIMES)
    assert set(get_args(options.Ranking)) == set(RANKINGS)
    assert {name.removesuffix("://") for name in options.ENGINES} == set(SCHEMES)
    named = {parameter.name for command in COMMANDS.values() for parameter in command.params}
    assert set(options.COMPLETIONS) <= named
