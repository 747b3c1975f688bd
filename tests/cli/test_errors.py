"""How a command ends that does not end well: one message, a fitting exit code, no traceback."""

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from surefind.cli.main import main
from surefind.errors import SurefindError
from surefind.search.index import Index

SUREFIND = Path(sys.executable).with_name("surefind")


@pytest.fixture
def fails(monkeypatch):
    """Let `surefind info` meet an error."""

    def arrange(error: BaseException) -> None:
        def refuse(*given, **named):
            raise error

        monkeypatch.setattr(Index, "open", refuse)

    return arrange


def debugged(capsys, *arguments: str) -> tuple[int, str]:
    """The exit code and stderr of a command that may show a traceback."""
    sys.argv = ["surefind", *arguments]
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), capsys.readouterr().err


def test_a_problem_of_the_user_is_one_message_with_a_remedy(surefind, fails):
    fails(SurefindError("the cupboard is\x1b[31m bare", fix="fill it"))
    done = surefind("info", "x")
    assert done.code == 1
    assert done.err == "error: the cupboard is�[31m bare\n  fix: fill it\n"


def test_what_nobody_thought_of_is_called_a_defect(surefind, fails):
    fails(KeyError("lost\nkey"))
    done = surefind("info", "x")
    assert done.code == 70
    assert done.err.startswith("this is a defect in surefind: KeyError: 'lost\\nkey' (run again")
    assert "--debug" in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("info", "x", "--debug"), ("--debug", "info", "x")])
def test_debug_shows_the_traceback_wherever_it_stands(fails, capsys, monkeypatch, arguments):
    monkeypatch.setattr(sys, "argv", [])
    fails(SurefindError("the cupboard is bare", fix="fill it"))
    code, said = debugged(capsys, *arguments)
    assert code == 1
    assert "Traceback" in said
    assert "fix: fill it" in said


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/a/b"), "/a/b: No space left on device"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files\n  fix: allow more"),
        (MemoryError(), "out of memory\n  fix: end other programs"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory: Default"),
        (ModuleNotFoundError("no", name="timm"), "timm is not installed\n  fix: surefind doctor"),
    ],
)
def test_what_the_system_refuses_is_one_message(surefind, fails, error, told):
    fails(error)
    done = surefind("info", "x")
    assert done.code == 1
    assert done.err.startswith(f"error: {told}")


def test_a_missing_part_of_surefind_itself_is_a_defect(surefind, fails):
    fails(ModuleNotFoundError("No module named 'surefind.x'", name="surefind.x"))
    assert surefind("info", "x").code == 70


@pytest.mark.parametrize("where", ["while arguments are read", "in the command"])
def test_ctrl_c_is_one_line_and_130(surefind, fails, monkeypatch, where: str):
    fails(KeyboardInterrupt())
    if where == "while arguments are read":
        monkeypatch.setattr("surefind.cli.commands.speak", Index.open)
    done = surefind("info", "x")
    assert done.code == 130
    assert done.err.startswith("interrupted; ")
    assert len(done.err.splitlines()) == 1
    assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL  # a second one shows no traceback


def test_ctrl_c_while_the_commands_load_is_told_too(surefind, monkeypatch):
    class Interrupting:
        def find_spec(self, name, path=None, target=None):
            if name == "surefind.cli.commands":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "surefind.cli.commands")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    done = surefind("info", "x")
    assert (done.code, done.err.split(";")[0]) == (130, "interrupted")


@pytest.mark.parametrize("arguments", [("recipes",), ("--help",)], ids=["print", "rich"])
def test_a_reader_that_goes_away_ends_a_command_quietly(arguments):
    child = subprocess.Popen(
        [SUREFIND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    child.stdout.close()  # as `| head -0` does
    said = child.stderr.read()
    assert (child.wait(), said) == (141, "")
    child.stderr.close()
