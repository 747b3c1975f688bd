"""A world of small inputs, and a reader that runs documents in a copy of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from command import Surefind
from documents_running import free_port, reader_of
from documents_surefind import InProcess
from documents_world import World

Read = Callable[[Path], None]


@pytest.fixture(scope="session")
def world(model: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"), model)


@pytest.fixture
def read(world: World, surefind: Surefind, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Read:
    """Run a document."""

    def run(path: Path) -> None:
        command = InProcess(surefind, world, monkeypatch=monkeypatch, port=free_port())
        with reader_of(path, world, surefind=command, place=tmp_path) as reader:
            reader.read(path)

    return run
