"""One demo for all tests of it."""

import pytest
from small_demo import TINY, Finished, Reported

from surefind.demo import run_demo


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A complete demo; running it again does not change it."""
    folder, reported = tmp_path_factory.mktemp("demo") / "demo", Reported()
    result = run_demo(folder, size=TINY, watch=reported.watch, ended=reported.ended)
    return Finished(folder, result, reported)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs at this size."""
    monkeypatch.setattr("surefind.demo.run.DemoSize", lambda: TINY)
