"""Errors and Ctrl-C: one message, an exit code, no traceback."""

import errno
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


def test_an_error_is_one_message_with_a_fix_and_no_control_characters(surefind, fails):
    fails(SurefindError("the cupboard is\x1b[31m bare", fix="fill it"))
    done = surefind("info", "x")
    assert done.code == 1
    assert done.err == "error: the cupboard is�[31m bare\n  fix: fill it\n"


def test_wrong_usage_exits_with_2(surefind):
    done = surefind("search", "index", "query.png", "-k", "0")
    assert (done.code, done.out) == (2, "")
    assert "Invalid value for '-k'" in done.err


def test_any_other_exception_is_an_internal_error_to_be_reported(surefind, fails):
    fails(KeyError("lost\nkey"))
    done = surefind("info", "x")
    assert done.code == 70
    assert done.err.startswith("internal error: KeyError: 'lost\\nkey' (please report")
    assert "--debug" in done.err
    assert len(done.err.splitlines()) == 1
    fails(ModuleNotFoundError("No module named 'surefind.x'", name="surefind.x"))
    assert surefind("info", "x").code == 70


@pytest.mark.parametrize("arguments", [("info", "x", "--debug"), ("--debug", "info", "x")])
def test_debug_prints_the_traceback_before_or_after_the_command(fails, capsys, monkeypatch, arguments):
    monkeypatch.setattr(sys, "argv", ["surefind", *arguments])
    fails(SurefindError("the cupboard is bare", fix="fill it"))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert "fix: fill it" in printed


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/a/b"), "/a/b: No space left on device"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files\n  fix: allow more"),
        (MemoryError(), "out of memory\n  fix: end other programs"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory: Default"),
        (ModuleNotFoundError("no", name="timm"), "timm is not installed\n  fix: pip install timm"),
        (
            ModuleNotFoundError("no", name="prometheus_client.x"),
            "prometheus-client is not installed\n  fix: pip install 'surefind[serve]'",
        ),
    ],
)
def test_an_error_of_the_system_is_one_message(surefind, fails, error, message):
    fails(error)
    done = surefind("info", "x")
    assert done.code == 1
    assert done.err.startswith(f"error: {message}")


HERE = "__import__('signal').raise_signal(2)"
BEGIN = """
import sys, time
import surefind.cli.info, surefind.errors
from surefind.cli.main import main
class Index:  # in place of the real one, which takes seconds to import
    def open(*given, **named):
        raise surefind.errors.SurefindError("nowhere")
class surefind_stub:
    Index = Index
surefind.cli.info.sf = surefind_stub
"""
MOMENTS = {
    "while the commands load": f"""
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "surefind.cli.commands":
            {HERE}
sys.meta_path.insert(0, Interrupting())
""",
    "in a command": f"Index.open = lambda *_, **__: {HERE}",
    "replaced by a library's exception": f"""
def open(*given, **named):
    try:
        {HERE}
    except BaseException:
        raise RuntimeError("export failed")
Index.open = open
""",
    "in a finalizer": f"""
class Held:
    def __del__(self):
        {HERE}
Index.open = lambda *_, **__: [Held() and None, time.sleep(60)]
""",
    "while an error is reported": f"""
import surefind.cli.errors
surefind.cli.errors._as_surefind_error = lambda _: {HERE}
""",
    "twice": f"""
def open(*given, **named):
    try:
        {HERE}
    finally:
        {HERE}
        time.sleep(60)
Index.open = open
""",
}


def interrupted(moment: str, tmp_path: Path) -> tuple[int, str]:
    """Return the exit code and stderr of `surefind verify nowhere` that meets Ctrl-C."""
    command = [sys.executable, "-c", f"{BEGIN}{moment}\nmain()", "verify", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=50)
    return done.returncode, done.stderr


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_is_one_line_and_130(moment: str, tmp_path: Path):
    code, said = interrupted(MOMENTS[moment], tmp_path)
    assert (code, said.split(";")[0]) == (130, "interrupted"), said
    assert len(said.splitlines()) == 1


def test_ctrl_c_while_python_shuts_down_is_ignored(tmp_path: Path):
    code, said = interrupted(f"import atexit; atexit.register(lambda: {HERE})", tmp_path)
    assert code == 1
    assert said.startswith("error: nowhere")


@pytest.mark.parametrize("arguments", [("recipes",), ("--help",)], ids=["print", "rich"])
def test_a_closed_output_pipe_ends_a_command_quietly(arguments):
    child = subprocess.Popen([SUREFIND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdout.close()  # as `| head -0` does
    said = child.stderr.read()
    assert (child.wait(), said) == (141, "")
    child.stderr.close()
