"""Programs that documents name beside surefind: run where that is harmless, else checked."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from command import Done
from documents_blocks import ROOT
from documents_shell import Call
from documents_world import clone

FINE = Done(0, "", "")
HERE = ("127.0.0.1", "localhost")
Surefind = Callable[[Call], Done]


def make(call: Call) -> Done:
    """The target is in the Makefile."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for word in call.words[1:]:
        assert "=" in word or word in targets, f"make {word}: no such target in the Makefile"
    return FINE


def pip(call: Call) -> Done:
    """An extra of surefind is one of pyproject.toml; nothing else is installed."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert call.words[1] == "install", f"pip {call.words[1]}: only install is known"
    wanted = [word for word in call.words[2:] if not word.startswith("-")]
    for word in wanted:
        named = re.fullmatch(r"(surefind|\.|\S+\.whl|constraints\.txt)(?:\[([a-z,-]+)\])?", word)
        assert named, f"pip install {word}: the tests know surefind alone"
        for extra in (named[2] or "").split(","):
            assert not extra or extra in extras, f"surefind[{extra}]: no such extra"
    return FINE


def git(call: Call) -> Done:
    """A clone has the files of this repository."""
    assert call.words[1] == "clone", f"git {call.words[1]}: only clone is known"
    *_, last = (word for word in call.words[2:] if not word.startswith("-"))
    clone(call.folder / Path(last).name.removesuffix(".git"))
    return FINE


def curl(call: Call) -> Done:
    """Run, if it asks this machine; nothing is downloaded."""
    urls = [word for word in call.words[1:] if word.startswith("http")]
    assert urls, "curl: give the address with http:// or https://"
    if any(urlsplit(url).hostname not in HERE for url in urls):
        return FINE
    done = subprocess.run(
        ["curl", "-fsS", "--noproxy", "*", *call.words[1:]],
        cwd=call.folder,
        input=call.stdin,
        capture_output=True,
        timeout=60,
    )
    return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode())


def not_run(call: Call) -> Done:
    """Needs what no test has: another machine, a server, a download."""
    return FINE


def surefind_inside(check: Surefind) -> Surefind:
    """The surefind part of `torchrun ... -m surefind index ...` has to be right."""

    def run(call: Call) -> Done:
        words = call.words
        place = max((n for n, word in enumerate(words) if word == "surefind"), default=None)
        return FINE if place is None else check(call._replace(words=words[place:]))

    return run


def python(surefind: Surefind) -> Surefind:
    """A few lines or a module are run; a script of the repository is there and has the options."""

    def run(call: Call) -> Done:
        words = call.words[1:]
        if words[:2] == ["-m", "surefind"]:
            return surefind(call._replace(words=words[1:]))
        if words[:2] == ["-m", "venv"]:
            (call.folder / words[2] / "bin").mkdir(parents=True, exist_ok=True)
            (call.folder / words[2] / "bin" / "activate").touch()
            return FINE
        if words[:2] == ["-m", "pip"]:
            return pip(call._replace(words=words[1:]))
        if words[:2] == ["-m", "pytest"]:
            return pytest(call._replace(words=words[1:]))
        if words and words[0].endswith(".py") and not (call.folder / words[0]).exists():
            return _script(words)
        return _really(call)

    return run


def pytest(call: Call) -> Done:
    """The files are there."""
    for word in call.words[1:]:
        named = word.partition("::")[0]
        assert "/" not in named or (ROOT / named).exists(), f"pytest {word}: no such file"
    return FINE


def _script(words: list[str]) -> Done:
    script = ROOT / words[0]
    assert script.is_file(), f"python {words[0]}: no such file"
    for option in (word.partition("=")[0] for word in words[1:] if word.startswith("--")):
        assert f'"{option}"' in script.read_text(), f"python {words[0]} {option}: no such option"
    return FINE


def _really(call: Call) -> Done:
    done = subprocess.run(
        [sys.executable, *call.words[1:]],
        cwd=call.folder,
        input=call.stdin,
        capture_output=True,
        timeout=60,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def all_programs(surefind: Surefind, check: Surefind) -> dict[str, Surefind]:
    """By name; `check` only parses what `surefind` runs."""
    other = ("psql", "createdb", "tar", "unzip", "wget", "hf", "systemctl", "nginx", "twine")
    return {
        "surefind": surefind,
        "python": python(surefind),
        "python3": python(surefind),
        "torchrun": surefind_inside(check),
        "docker": surefind_inside(check),
        "make": make,
        "pip": pip,
        "git": git,
        "curl": curl,
        "pytest": pytest,
        **dict.fromkeys(other, not_run),
    }
