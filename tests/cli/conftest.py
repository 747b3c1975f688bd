"""Pictures, and an index of them."""

import shutil
from pathlib import Path

import pytest
from calibrations import make_calibrated_index, write_foreign_picture
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


@pytest.fixture(scope="session")
def calibrated(model: Path, tmp_path_factory) -> Path:
    """A folder with a calibrated index, its queries, and a foreign query; not to be changed."""
    folder = make_calibrated_index(tmp_path_factory.mktemp("calibrated"), model)
    write_foreign_picture(folder / "foreign.png")
    return folder
