"""A calibrated index with its pictures, and a server of it that all tests of a run share."""

import io
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import NamedTuple

import numpy as np
import pytest
from calibrations import make_calibrated_index
from PIL import Image
from serving import Running, Served, running, served
from vague_vectors import vague_vectors

import surefind as sf
from surefind.cli.main import main
from surefind.encoders import Encoder, EncoderConfig
from surefind.images.preprocess import Preprocessing
from surefind.search.index import Index


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "model"
    config = EncoderConfig("tiny", dim=16, preprocessing=Preprocessing(size=16))
    Encoder.create(config, seed=0).save(folder)
    return folder


@pytest.fixture(scope="session")
def home(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With `index`, `photos` and `queries`; not to be changed."""
    return make_calibrated_index(tmp_path_factory.mktemp("home"), model)


@pytest.fixture
def own(home: Path, tmp_path: Path) -> Path:
    """A copy of the index, to be changed; its pictures stay where they are."""
    return Path(copytree(home / "index", tmp_path / "index"))


@pytest.fixture(scope="session")
def service(home: Path) -> Iterator[Served]:
    """Of the calibrated index, with samples; not to be changed."""
    with served(Index.open(home / "index"), samples=home / "queries" / "class00") as shared:
        yield shared


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of vectors of another model, not to be changed."""
    known = vague_vectors(seed=0)
    folder = tmp_path_factory.mktemp("vectors") / "index"
    upgrade = sf.calibrate(
        known.vectors, known.labels, wishes=sf.Wishes(precision=0.8), learn_doubt=False
    )
    upgrade.index(folder, known.vectors, metadata=[{"label": str(n)} for n in known.labels]).close()
    return folder


@pytest.fixture(scope="session")
def vector_service(vectors: Path) -> Iterator[Served]:
    with served(Index.open(vectors)) as shared:
        yield shared


@pytest.fixture(scope="session")
def process(home: Path) -> Iterator[Running]:
    """The command itself, of the calibrated index."""
    with running(home / "index") as started:
        yield started


@pytest.fixture(scope="session")
def photo(home: Path) -> bytes:
    """Of a class that the index knows, but not one of its images."""
    return (home / "queries" / "class03" / "1.png").read_bytes()


@pytest.fixture(scope="session")
def picture() -> Callable[[int], bytes]:
    """A small picture of noise, another for each seed."""

    def draw(seed: int) -> bytes:
        pixels = np.random.default_rng(seed).integers(0, 255, (12, 16, 3), np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        return file.getvalue()

    return draw


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def surefind(monkeypatch, capsys, tmp_path) -> Iterator[Callable[..., Done]]:
    """Run a command that ends by itself, in an empty folder; its exit code, and what it said."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["surefind", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
