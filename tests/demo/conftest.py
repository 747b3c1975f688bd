"""One demo for all tests of it."""

import pytest
from small_demo import TINY, Finished, run_tiny


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A complete demo; running it again does not change it."""
    return run_tiny(tmp_path_factory.mktemp("demo") / "demo")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs at this size."""
    monkeypatch.setattr("surefind.demo.run.DemoSize", lambda: TINY)
