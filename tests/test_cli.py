"""The command line, as a user runs it."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SUREFIND = Path(sys.executable).with_name("surefind")


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SUREFIND, *arguments], capture_output=True, text=True, cwd=cwd)


def test_help_names_the_commands(tmp_path):
    done = run("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "figures" in done.stdout


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("figure.png", "choose the kind by --format"),
        ("taken", "cannot write taken: File exists"),
        ("taken/deeper", "cannot write taken/deeper: Not a directory"),
    ],
)
def test_a_folder_that_cannot_be_drawn_into_is_one_clear_error(output: str, message: str, tmp_path):
    (tmp_path / "taken").touch()
    done = run("figures", "approximation", "-o", output, cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_doctor_finds_what_is_needed(tmp_path):
    done = run("doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    told = json.loads(done.stdout)
    assert told["fine"]
    assert {finding["state"] for finding in told["packages"]} == {"fine"}
    assert list(tmp_path.iterdir()) == []


def test_recipes_are_listed_and_printed(tmp_path):
    assert "bayes-centred" in run("recipes", cwd=tmp_path).stdout
    whole = run("recipes", "bayes-centred+glyphs", cwd=tmp_path).stdout
    assert tomllib.loads(whole)["encoder"]["backbone"] == "tiny"


def test_an_unknown_recipe_is_one_clear_error(tmp_path):
    done = run("train", "glyphs", "-o", "model", "--recipe", "triplett+glyphs", cwd=tmp_path)
    assert done.returncode == 1
    assert "did you mean triplet" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
