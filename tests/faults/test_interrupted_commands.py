"""Ctrl-C in the middle of real commands: 130, no traceback, and the same command works after it."""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from class_folders import write_pictures

from surefind.encoders import Encoder
from surefind.search.index import Index

SETTINGS = ("schedule.steps=40", "schedule.checkpoint_every=5", "schedule.log_every=1")
QUICK = tuple(word for setting in SETTINGS for word in ("--set", setting))
TRAIN = ("train", "photos", "-o", "made", "--recipe", "triplet+glyphs", *QUICK)
COMMANDS = {  # each with the one that shows that nothing is broken
    "train": (TRAIN, (*TRAIN, "--resume")),
    "index": (("index", "photos", "--model", "model", "-o", "made"), ("verify", "made")),
    "encode": (("encode", "model", "photos", "-o", "made.npz"), ()),
    "export": (("export", "model", "--onnx"), ()),
    "calibrate": (("calibrate", "index", "queries"), ("verify", "index")),
    "evaluate": (("evaluate", "model", "photos", "-o", "made", "--split", "all"), ()),
    "search": (("search", "index", "queries"), ("verify", "index")),
    "check": (("check", "photos"), ()),
    "reproduce": (("reproduce", "glyphs", "--data", "letters", "-o", "made", "--rows", "triplet", *QUICK), ()),
}
FINE = (0, 3, 4)  # a verdict is an answer
MOMENTS = 12
SUREFIND = Path(sys.executable).with_name("surefind")
PATIENCE = 120  # seconds
BEGUN = "from surefind.cli.main import main; import os; os.write(2, b'\\n'); main()"


class Ended(NamedTuple):
    code: int
    said: str  # on stderr


def start(
    arguments: Sequence[str], cwd: Path, *, command: Sequence[str | Path] = (SUREFIND,)
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*command, *arguments],
        cwd=cwd,
        stdin=subprocess.PIPE,  # which stays empty and open
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def run(arguments: Sequence[str], cwd: Path) -> Ended:
    child = start(arguments, cwd)
    said = child.communicate(timeout=PATIENCE)[1]
    return Ended(child.returncode, said)


def interrupted_when(line: str, arguments: Sequence[str], cwd: Path) -> Ended:
    """Interrupt when a line on stderr begins with `line`."""
    child = start(arguments, cwd)
    lines = []
    for said in child.stderr:
        lines.append(said)
        if said.startswith(line):
            child.send_signal(signal.SIGINT)
            break
    lines.append(child.communicate(timeout=PATIENCE)[1])
    return Ended(child.returncode, "".join(lines))


def interrupted_after(seconds: float, arguments: Sequence[str], cwd: Path) -> Ended:
    """Interrupt so long after the handler is set; before, Python itself handles Ctrl-C."""
    child = start(arguments, cwd, command=(sys.executable, "-c", BEGUN))
    child.stderr.readline()
    time.sleep(seconds)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=PATIENCE)[1]
    return Ended(child.returncode, said)


@pytest.fixture
def place(model: Path, tmp_path: Path) -> Path:
    """A model, pictures, and a folder for glyphs."""
    shutil.copytree(model, tmp_path / "model")
    write_pictures(tmp_path / "photos", classes=12, per_class=6)
    (tmp_path / "letters").mkdir()
    return tmp_path


def test_ctrl_c_in_training_is_met_and_the_run_goes_on_later(place: Path, surefind):
    ended = interrupted_when("training", (*TRAIN, "--set", "schedule.steps=100000"), place)
    assert ended.code == 130, ended.said
    assert "Traceback" not in ended.said
    stopped = re.search(r"stopped after step (\d+); everything is saved; go on", ended.said)
    assert stopped is not None
    few_more = f"schedule.steps={int(stopped[1]) + 3}"
    assert surefind(*TRAIN, "--set", few_more, "--resume").code == 0


def test_ctrl_c_in_a_search_that_waits_for_its_picture_ends_it_at_once(place: Path, surefind):
    index = place / "made"
    Index.create(index, Encoder.load(place / "model"), place / "photos").close()
    ended = interrupted_after(1, ("search", "made", "-"), place)
    assert ended.code == 130
    assert ended.said.startswith("interrupted")
    assert len(ended.said.splitlines()) == 1
    assert surefind("verify", index).code == 0


@pytest.mark.faults
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_at_any_moment_leaves_nothing_broken(place: Path, home: Path, tmp_path_factory, name: str):
    command, check = COMMANDS[name]
    for folder in ("index", "queries"):
        shutil.copytree(home / folder, place / folder)
    spare = tmp_path_factory.mktemp("spare") / "place"
    shutil.copytree(place, spare)
    began = time.monotonic()
    assert run(command, spare).code in FINE
    whole = time.monotonic() - began
    codes: Counter[int] = Counter()
    for moment in np.linspace(0.02, whole, MOMENTS):
        goes_on = name == "train" and (place / "made" / "run" / "state.pt").exists()
        ended = interrupted_after(moment, check if goes_on else command, place)
        codes[ended.code] += 1
        assert ended.code in (130, *FINE), ended.said
        assert "Traceback" not in ended.said, ended.said
    logging.getLogger(__name__).info("%s: %s", name, dict(codes))
    again = run(check if check and (place / "made").exists() else command, place)
    assert again.code in FINE, again.said
