"""surefind evaluate as a user calls it."""

import json
from pathlib import Path

import pytest


def test_the_first_minute(surefind, place: Path):
    command = ("evaluate", place / "gaussian", place / "own", "-o", "report")
    options = ("--ood", place / "foreign", "--ladder", "2")
    done = surefind(*command, *options)
    assert done.code == 0, done.err
    assert "each of 20 images searches all the others" in done.out
    assert "R@1" in done.out
    assert "OOD AUROC" in done.out
    assert "baseline: black bars alone separate foreign images with AUROC" in done.out
    assert "…" not in done.out  # nothing is cut off at 80 columns
    assert "encoding images" in done.err
    made = {path.name for path in Path("report").iterdir()}
    assert made == {"results.json", "queries.csv", "figures", "report.html", "embeddings"}
    written = json.loads(Path("report/results.json").read_text())
    assert written["about"]["command"] == " ".join(map(str, ("surefind", *command, *options)))
    found = json.loads(surefind(*command, "--json", "--k", "1,3").out)
    assert (found["about"]["ks"], found["ladder"]) == ([1, 3], None)
    assert {"R@1", "R@3"} <= set(found["rankings"]["means"]["retrieval"])


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("nowhere", (), "no such file or folder"),
        ("own", ("--k", "one"), "--k: expected numbers"),
        ("own", ("--k", "0"), "numbers from 1 on"),
        ("own", ("-o", "a file/report"), "cannot write"),  # found out before the work
    ],
)
def test_bad_input_is_one_message(surefind, place: Path, data: str, options, message: str):
    Path("a file").touch()
    done = surefind("evaluate", place / "gaussian", place / data, "-o", "bad", *options)
    assert done.code == 1
    assert message in done.err
    assert "encoding" not in done.err
    assert not Path("bad/results.json").exists()
