"""What every command has: examples that can be typed, --quiet, --debug, --json."""

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from class_folders import write_pictures
from commands_walked import COMMANDS, examples_of, help_of, options, parse


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_examples_that_can_be_typed_and_what_each_option_means(name: str):
    examples = examples_of(COMMANDS[name])
    assert any(f"{example} ".startswith(f"surefind {name} ") for example in examples)
    shown = [line.strip() for line in help_of(name).splitlines()]
    for example in examples:
        parse(shlex.split(example))
        assert example in shown
    assert all(parameter.help for parameter in COMMANDS[name].params)

    assert {"--quiet", "-q", "--debug"} <= options(COMMANDS[name])
    assert ("--json" in options(COMMANDS[name])) == (name != "serve")  # which has no result


def test_help_groups_the_commands_and_explains_the_exit_codes():
    shown = help_of()
    for panel in ("First steps", "Build", "Search", "Evaluate", "Share"):
        assert f"─ {panel} ─" in shown
    assert "─ Commands ─" not in shown
    for line in ("0  success", "2  wrong usage", "70  internal error", "130  interrupted"):
        assert line in shown


def test_recipes_are_listed_and_printed_as_toml_or_json(surefind):
    assert set(json.loads(surefind("recipes", "--json").out)) <= set(surefind("recipes").out.split())
    one = json.loads(surefind("recipes", "triplet+glyphs", "--json").out)
    assert one["encoder"]["backbone"] == "tiny"
    assert tomllib.loads(surefind("recipes", "triplet+glyphs").out)["encoder"] == one["encoder"]


def test_an_unknown_recipe_is_one_error_with_the_nearest_name(surefind, tmp_path):
    done = surefind("train", "glyphs", "-o", "model", "--recipe", "triplett+glyphs")
    assert done.code == 1
    assert "did you mean triplet" in done.err
    assert list(tmp_path.iterdir()) == []


def test_the_installed_command_runs_and_doctor_finds_what_is_required(tmp_path):
    command = [Path(sys.executable).with_name("surefind"), "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert {finding["state"] for finding in json.loads(done.stdout)["packages"]} == {"ok"}
    assert list(tmp_path.iterdir()) == []


def test_a_command_loads_no_other_command():
    script = "import sys; sys.argv[1:] = ['search', '--help']\nimport atexit, surefind.cli.main as m\n"
    script += "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); m.main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    loaded = {name.removeprefix("surefind.cli.") for name in done.stderr.split()}
    assert loaded & set(COMMANDS) == {"search"}


@pytest.mark.parametrize("command", [("check",), ("search", "index"), ("train", "-o", "model")])
def test_a_url_is_one_error_with_the_command_that_downloads_it(surefind, command):
    done = surefind(*command, "https://example.org/a%20b.jpg")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "error: https://example.org/a%20b.jpg is a URL; surefind reads files\n"
        "  fix: download it first: curl -LO https://example.org/a%20b.jpg\n"
    )


def test_training_prints_what_it_held_out(surefind, tmp_path):
    write_pictures(tmp_path / "photos", classes=12, per_class=4)
    settings = ("--set", "schedule.steps=1", "--set", "data.val_share=0.2")
    done = surefind("train", "photos", "-o", "model", "--recipe", "triplet+glyphs", *settings)
    assert done.out.splitlines()[1:4] == [
        "to train: 16 images of 4 classes",
        "to validate: 8 images of 2 classes",
        "to test: 24 images of 6 classes",
    ]
