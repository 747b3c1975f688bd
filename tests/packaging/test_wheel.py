"""The wheel and the sdist: complete, nothing else, and the wheel runs on its own."""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import surefind

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCE = (str(ROOT / "src"), str(ROOT / "recipes"))
WATCHING = f"""
import runpy, sys
def look(event, arguments):
    if event == "open" and str(arguments[0]).startswith({SOURCE!r}):
        sys.stderr.write(f"opened {{arguments[0]}}")
        sys.exit(99)
sys.addaudithook(look)
sys.argv[0] = "surefind"
runpy.run_module("surefind", run_name="__main__")
"""


def run(*arguments: object, cwd: Path) -> None:
    done = subprocess.run([sys.executable, "-m", *map(str, arguments)], cwd=cwd, capture_output=True)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run("build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the tree itself."""
    folder = tmp_path_factory.mktemp("wheel")
    run("build", "--no-isolation", "--wheel", "--outdir", folder, ROOT, cwd=folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the wheel; the environment has what it depends on."""
    folder = tmp_path_factory.mktemp("installed")
    options = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps")
    run("pip", "install", *options, "--target", folder, wheel, cwd=folder)
    return folder


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    package = ROOT / "src" / "surefind"
    ours = {
        f"surefind/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    ours |= {f"surefind/recipes/{path.name}" for path in (ROOT / "recipes").iterdir()}
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert shipped == ours
    assert {"surefind/py.typed", "surefind/serve/page/index.html"} <= shipped


def test_the_metadata_are_those_of_the_project(wheel):
    with zipfile.ZipFile(wheel) as archive:
        folder = next(n for n in archive.namelist() if n.endswith("/METADATA")).rpartition("/")[0]
        facts = message_from_string(archive.read(f"{folder}/METADATA").decode())
        commands = archive.read(f"{folder}/entry_points.txt").decode()
        assert f"{folder}/licenses/LICENSE" in archive.namelist()
    assert facts["Name"] == "surefind"
    assert facts["Version"] == surefind.__version__ == PROJECT["version"]
    assert facts["License-Expression"] == "Apache-2.0"
    assert set(facts.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert "surefind = surefind.cli.main:main" in commands


def test_the_sdist_makes_the_same_wheel(dist, wheel):
    again = next(dist.glob("*.whl"))
    assert again.name == wheel.name
    with zipfile.ZipFile(again) as ours, zipfile.ZipFile(wheel) as theirs:
        assert set(ours.namelist()) == set(theirs.namelist())
        for name in ours.namelist():
            assert ours.read(name) == theirs.read(name), name


def test_the_sdist_has_what_the_tests_need_and_no_leftovers(dist):
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"tests/conftest.py", "constraints.txt", "Makefile", "CHANGELOG.md"} <= inside
    unwanted = (".venv/", ".git/", "demo/", "dist/", "site/", ".mypy_cache/", ".hypothesis/")
    assert not [name for name in inside if name.startswith(unwanted) or "__pycache__" in name]


def alone(installed: Path, *arguments: str, cwd: Path) -> str:
    """Run the unpacked wheel; a file of the source tree that it opens ends it."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHING, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_alone_has_its_version_and_recipes_and_trains(installed, tmp_path):
    assert surefind.__version__ in alone(installed, "--version", cwd=tmp_path)
    assert "bayes-centred" in alone(installed, "recipes", cwd=tmp_path)
    few = ("schedule.steps=2", "batch.classes=4", "batch.images=2")
    settings = [part for setting in few for part in ("--set", setting)]
    alone(installed, "train", "glyphs", "-o", "model", *settings, cwd=tmp_path)
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
