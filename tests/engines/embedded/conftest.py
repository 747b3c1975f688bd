"""Shared by the tests of the embedded engine: a place for an index, and small tiers."""

from pathlib import Path

import pytest

from surefind.engines.embedded import merging


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def small_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are put together from three on, so that a few rows go through every tier."""
    monkeypatch.setattr(merging, "SMALLEST", 4)
    monkeypatch.setattr(merging, "AT_ONCE", 3)
