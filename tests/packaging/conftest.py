"""The wheel and the sdist of this tree, built once, and the wheel unpacked alone."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments: object, cwd: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)], cwd=cwd, capture_output=True
    )
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
