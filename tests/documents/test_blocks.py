"""README and tutorial run from the first block to the last; the blocks of other pages are right."""

import ast
import json
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import small_surefind
import yaml
from calibrations import write_noisy_pictures
from commands_walked import parse
from documents_blocks import DOCUMENTS, ROOT, Block, blocks_of, name_of
from noisy_vectors import noisy_vectors
from PIL import Image

import surefind as sf
from surefind.datasets import glyphs
from surefind.training.recipe import Recipe

RUN = (ROOT / "README.md", ROOT / "docs" / "tutorial.md")
PROGRAMS = ROOT / "docs" / "how-to" / "programs.md"
SHELL = f"""set -e
surefind() {{ {sys.executable} {small_surefind.__file__} "$@" || [ $? = 3 -o $? = 4 ]; }}
make() {{ grep -q "^$1:" {ROOT}/Makefile; }}
pip() {{ :; }}
curl() {{ command curl -fsS --noproxy '*' "$@"; }}
"""  # 3 and 4 are what surefind thinks of a query


def write_inputs(folder: Path) -> None:
    """The inputs that README and tutorial name: photos, queries, vectors."""
    write_noisy_pictures(folder / "photos", per_class=6, seed=0)
    write_noisy_pictures(folder / "labelled", per_class=12, seed=1)
    (folder / "queries").mkdir()
    for number in range(4):
        picture = Image.open(folder / "labelled" / f"class{number:02d}" / "0.png")
        picture.save(folder / "queries" / f"{number}.jpg")
    picture.save(folder / "query.jpg")
    vectors, labels, _ = noisy_vectors(classes=60, per_class=12)
    known = labels < 30
    asked = ~known & (np.arange(len(labels)) % 60 == 0)
    gallery = ~known & ~asked
    np.savez(folder / "vectors.npz", vectors=vectors[known], labels=labels[known])
    np.savez(folder / "gallery.npz", vectors=vectors[gallery], labels=labels[gallery])
    np.savez(folder / "asked.npz", vectors=vectors[asked])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which documents are run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUREFIND_CACHE", str(tmp_path / "cache"))
    for name, number in small_surefind.FEW_GLYPHS.items():
        monkeypatch.setitem(glyphs.draw_glyphs.__kwdefaults__, name, number)
    return tmp_path


@pytest.fixture
def services() -> Iterator[list["subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for service in started:
        with service:  # closes its pipe
            service.send_signal(signal.SIGINT)
            assert service.wait(30) == 0


@pytest.mark.parametrize("path", RUN, ids=name_of)
def test_a_document_runs_from_its_first_block_to_its_last(path: Path, model: Path, place: Path, services):
    if path.name == "README.md":
        write_inputs(place)
        sf.Index.create(place / "photos.index", sf.Encoder.load(model), place / "photos").close()
    scope: dict[str, object] = {"__name__": "__main__"}
    address = "127.0.0.1:8000"
    for block in blocks_of(path):
        if block.language == "python":
            lines = "\n" * (block.line - 1)  # so that a traceback names the right ones
            exec(compile(lines + block.text, str(path), "exec"), scope)
        elif block.text.startswith("surefind serve"):
            words = [*shlex.split(block.text, comments=True)[1:], "--port", "0"]
            command = [sys.executable, small_surefind.__file__, *words]
            services.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            said = services[-1].stdout.readline()
            address = re.search(r"http://(\S+)", said)[1]
        elif block.language == "sh":
            script = SHELL + block.text.replace("127.0.0.1:8000", address)
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
            assert done.returncode == 0, f"line {block.line}:\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("title", re.findall("^## (.+)$", PROGRAMS.read_text(), re.MULTILINE))
def test_a_short_program_prints_what_it_says(title: str, tmp_path, monkeypatch, capsys, request):
    monkeypatch.chdir(tmp_path)
    start, *programs = blocks_of(PROGRAMS)
    above = PROGRAMS.read_text().partition(f"## {title}\n")[0]
    program = next(block for block in programs if block.line > above.count("\n"))
    if "psycopg" in program.text:
        server = request.getfixturevalue("postgres")
        place = {"HOST": server.data, "PORT": server.port, "DATABASE": server.database()}
        for name, value in {**place, "USER": "postgres"}.items():
            monkeypatch.setenv(f"PG{name}", str(value))
    exec(f"{start.text}\n{program.text}", {"__name__": "__main__"})
    printed = capsys.readouterr().out
    for expected in re.findall("# prints (.+)$", program.text, re.MULTILINE):
        assert expected in printed


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_the_blocks_of_a_document_are_right(path: Path, tmp_path, monkeypatch):
    blocks = blocks_of(path)
    for block in blocks:
        try:
            CHECKS[block.language](block)
        except Exception as error:
            error.add_note(f"in the {block.language} block at {name_of(path)}, line {block.line}")
            raise
    languages = {block.language for block in blocks}
    if languages <= {"python", "text"} and path != PROGRAMS:  # these need nothing else
        monkeypatch.chdir(tmp_path)
        exec("\n".join(block.text for block in blocks if block.language == "python"), {})


def check_python(block: Block) -> None:
    """Syntax; names of surefind that are imported, or used as `sf.NAME`, exist."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("surefind"):
            assert node.module
            for alias in node.names:
                assert hasattr(import_module(node.module), alias.name), ast.unparse(node)
        elif isinstance(node, ast.Attribute) and re.fullmatch(r"sf(\.\w+)+", ast.unparse(node)):
            found = sf
            for name in ast.unparse(node).split(".")[1:]:
                found = getattr(found, name)


def check_shell(block: Block) -> None:
    """Syntax; commands and options of surefind, targets of make, extras and scripts exist."""
    subprocess.run(["bash", "-n", "-c", block.text], check=True)
    for line in block.text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("();<>|&"):
                check_command(words)
                words = []
            else:
                words.append(word)


def check_command(words: list[str]) -> None:
    if "surefind" in words and words[0] in ("surefind", "torchrun", "docker", "python"):
        given = parse(words[words.index("surefind") :])
        if (recipe := given.get("recipe")) and not recipe.endswith(".toml"):
            Recipe.read(recipe, given["settings"] or ())
    elif words[:1] == ["make"]:
        assert f"\n{words[1]}: " in (ROOT / "Makefile").read_text(), words
    elif words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for extra in re.findall(r"\[(.+?)\]", " ".join(words)):
            assert {*extra.split(",")} <= {*project["optional-dependencies"]}, words
    elif words[:1] == ["python"] and words[1].endswith(".py"):
        script = (ROOT / words[1]).read_text()
        assert [word for word in words[2:] if word[:2] == "--" and f'"{word}"' not in script] == []


def check_toml(block: Block) -> None:
    """Where it has a table that only recipes have, it is one."""
    values = tomllib.loads(block.text)
    if {*values} & {field.name for field in fields(Recipe)}:
        Recipe.from_dict(values)


CHECKS = {
    "python": check_python,
    "sh": check_shell,
    "toml": check_toml,
    "json": lambda block: json.loads(block.text),
    "yaml": lambda block: list(yaml.safe_load_all(block.text)),
    "text": lambda block: None,
}
