"""One demo for all tests of it."""

import pytest
from small_demo import TINY, Finished, Heard

from surefind.demo import run_demo


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Run to its end; whoever runs it again leaves it as it is."""
    folder, heard = tmp_path_factory.mktemp("demo") / "demo", Heard()
    result = run_demo(folder, size=TINY, watch=heard.watch, ended=heard.ended)
    return Finished(folder, result, heard)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs at this size."""
    monkeypatch.setattr("surefind.demo.run.DemoSize", lambda: TINY)
