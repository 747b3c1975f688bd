"""surefind evaluate as a user calls it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from surefind.cli.main import main


def surefind(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "surefind", *arguments], cwd=place, capture_output=True, text=True
    )


def test_the_first_minute(place: Path):
    done = surefind(
        place, "evaluate", "gaussian", "own", "--ood", "foreign", "-o", "report", "--ladder", "2"
    )
    assert done.returncode == 0, done.stderr
    assert "each of 20 images searches all the others" in done.stdout
    assert "R@1" in done.stdout
    assert "AUROC foreign" in done.stdout
    assert "baseline: black bars alone separate foreign images with AUROC" in done.stdout
    assert "…" not in done.stdout  # nothing is cut off at 80 columns
    assert "encoding images" in done.stderr
    made = {path.name for path in (place / "report").iterdir()}
    assert made == {"results.json", "queries.csv", "figures", "report.html", "embeddings"}
    command = json.loads((place / "report" / "results.json").read_text())["about"]["command"]
    assert command == "surefind evaluate gaussian own --ood foreign -o report --ladder 2"


def test_json_is_the_result(place: Path):
    done = surefind(
        place, "evaluate", "gaussian", "own", "-o", "json", "--ladder", "0", "--json", "--k", "1,3"
    )
    found = json.loads(done.stdout)
    assert found["about"]["ks"] == [1, 3]
    assert set(found["rankings"]["means"]["recall"]) == {"1", "3"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gaussian", "nowhere"], "no such file or folder"),
        (["gaussian", "own", "--k", "one"], "--k: expected numbers"),
        (["gaussian", "own", "--k", "0"], "numbers from 1 on"),
    ],
)
def test_bad_input_is_one_message(
    place: Path, arguments: list[str], message: str, monkeypatch, capsys
):
    error = failing(place, monkeypatch, capsys, *arguments, "-o", "bad", "--ladder", "0")
    assert message in error
    assert not (place / "bad" / "results.json").exists()


def test_a_folder_that_cannot_be_written_is_found_out_first(place: Path, monkeypatch, capsys):
    (place / "a file").write_text("")
    error = failing(place, monkeypatch, capsys, "gaussian", "own", "-o", "a file/report")
    assert "cannot write" in error
    assert "encoding" not in error


def failing(place: Path, monkeypatch, capsys, *arguments: str) -> str:
    """What the command says when it ends with 1."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "argv", ["surefind", "evaluate", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    return capsys.readouterr().err
