"""The shared small model with its ONNX files, made once."""

import shutil
from pathlib import Path

import pytest

from surefind.encoders.onnx.export import export_onnx


@pytest.fixture(scope="session")
def exported(model: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `model` with both exports, int8 by some of the `queries`; not to be changed."""
    folder = Path(shutil.copytree(model, tmp_path_factory.mktemp("exported") / "model"))
    export_onnx(folder, int8=sorted((home / "queries").rglob("*.png"))[::6], source="queries")
    return folder


@pytest.fixture
def own_export(exported: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copytree(exported, tmp_path / "own"))
