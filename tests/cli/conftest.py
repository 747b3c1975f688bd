"""Pictures, and an index of them."""

import shutil
from pathlib import Path

import pytest
from class_folders import write_pictures

from surefind.encoders import Encoder
from surefind.search.index import Index

CLASSES, PER_CLASS = 4, 5


@pytest.fixture(scope="session")
def gallery(tmp_path_factory) -> Path:
    """Not to be changed."""
    folder = tmp_path_factory.mktemp("gallery") / "photos"
    return write_pictures(folder, classes=CLASSES, per_class=PER_CLASS)


@pytest.fixture
def photos(gallery: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copytree(gallery, tmp_path / "photos"))


@pytest.fixture(scope="session")
def finished(model: Path, gallery: Path, tmp_path_factory) -> Path:
    """An index, not to be changed."""
    folder = tmp_path_factory.mktemp("finished") / "photos.index"
    Index.create(folder, Encoder.load(model), gallery).close()
    return folder
