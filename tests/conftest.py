"""Fixtures of all tests: embeddings, a model, a calibrated index, database servers."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from calibrations import calibrate_without_labels, make_calibrated_index
from command import surefind  # noqa: F401 - a fixture
from milvus_server import MilvusServer, milvus_server
from postgres import PostgresServer, postgres_server
from sampling import Draw

from surefind.encoders import Encoder, EncoderConfig
from surefind.encoders.onnx import export_onnx
from surefind.images.preprocess import Preprocessing


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a Milvus server, which takes a minute to start."""
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if "milvus" in getattr(item, "fixturenames", ()) or "milvus" in map(str, parameters):
            item.add_marker("milvus")


@pytest.fixture(autouse=True)
def ctrl_c() -> None:
    """Restore the default signal handlers, which commands change."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.fixture
def draw() -> Draw:
    return Draw(torch.Generator().manual_seed(0))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small encoder with random weights."""
    folder = tmp_path_factory.mktemp("shared") / "model"
    config = EncoderConfig("tiny", dim=15, preprocessing=Preprocessing(size=16))
    Encoder.create(config, seed=0).save(folder)
    return folder


@pytest.fixture(scope="session")
def home(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a calibrated `index`, its `photos`, and `queries`; not to be changed."""
    return make_calibrated_index(tmp_path_factory.mktemp("home"), model)


@pytest.fixture(scope="session")
def label_free(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the index of `home`, calibrated without labels; not to be changed."""
    folder = tmp_path_factory.mktemp("label-free") / "index"
    return calibrate_without_labels(shutil.copytree(home / "index", folder), home / "queries")


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    with milvus_server(tmp_path_factory.mktemp("milvus")) as server:
        yield server
