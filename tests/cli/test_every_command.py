"""What every command has: examples that can be typed, --quiet, --debug, --json."""

import json
import shlex

import pytest
from commands_walked import COMMANDS, examples_of, help_of, options, parse

WITHOUT_RESULT = {"serve"}  # it runs until it is ended

each = pytest.mark.parametrize("name", COMMANDS)


@each
def test_help_shows_examples_that_can_be_typed_and_what_each_option_means(name: str):
    examples = examples_of(COMMANDS[name])
    assert any(f"{example} ".startswith(f"surefind {name} ") for example in examples)
    shown = [line.strip() for line in help_of(name).splitlines()]
    for example in examples:
        parse(shlex.split(example))
        assert example in shown
    assert all(parameter.help for parameter in COMMANDS[name].params)


@each
def test_a_command_can_be_quiet_and_debugged_and_prints_its_result_as_json(name: str):
    assert {"--quiet", "-q", "--debug"} <= options(COMMANDS[name])
    assert ("--json" in options(COMMANDS[name])) == (name not in WITHOUT_RESULT)


def test_commands_are_grouped_by_what_they_are_for():
    shown = help_of()
    for panel in ("First steps", "Build", "Ask", "Judge"):
        assert f"─ {panel} ─" in shown
    assert "─ Commands ─" not in shown


def test_help_explains_the_exit_codes():
    shown = help_of()
    for line in ("0  fine", "2  wrong usage", "4  foreign", "70  a defect", "130  interrupted"):
        assert line in shown


def test_the_version_is_told(surefind):
    from surefind import __version__

    done = surefind("--version")
    assert (done.code, done.out) == (0, f"surefind {__version__}\n")


def test_recipes_are_json_as_a_list_and_one_by_one(surefind):
    known = json.loads(surefind("recipes", "--json").out)
    assert "triplet" in known
    one = json.loads(surefind("recipes", "triplet+glyphs", "--json").out)
    assert one["encoder"]["backbone"] == "tiny"


def test_figures_tell_what_was_drawn_as_json(surefind, tmp_path):
    done = surefind("figures", "loss", "-o", "out", "--format", "svg", "--json")
    assert json.loads(done.out) == {"drawn": ["out/loss.svg"], "left_out": {}, "measured": {}}
    assert (tmp_path / "out" / "loss.svg").is_file()
