"""A calibrated index with its pictures, and a server of it that the tests of a file share."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from PIL import Image
from serving import Running, Served, running, served
from vague_vectors import vague_vectors

import surefind as sf
from surefind.search.index import Index


@pytest.fixture
def own(home: Path, tmp_path: Path) -> Path:
    """A copy of the index, to be changed; its pictures stay where they are."""
    return Path(copytree(home / "index", tmp_path / "index"))


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
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
