"""A model, pictures, an index of them, and the command line in this process."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pictures import write_pictures

from surefind.cli.main import main
from surefind.encoders import Encoder, EncoderConfig
from surefind.images.preprocess import Preprocessing
from surefind.search.index import Index

CLASSES, PER_CLASS = 4, 5


class Done(NamedTuple):
    code: int
    out: str
    err: str


Surefind = Callable[..., Done]


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "model"
    config = EncoderConfig("tiny", dim=16, preprocessing=Preprocessing(size=16))
    Encoder.create(config, seed=0).save(folder)
    return folder


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


@pytest.fixture
def surefind(monkeypatch, capsys, tmp_path) -> Iterator[Surefind]:
    """Run a command in an empty folder; its exit code, and what it said where."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["surefind", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Done(int(ended.value.code or 0), said.out, said.err)

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
