"""Shared by the tests of the embedded engine: a place for an index, and small tiers."""

import os
from pathlib import Path

import pytest

from surefind import files
from surefind.engines.embedded import merging


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here: what waits for the disk waits for nothing."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(files, "fsync", lambda _: None)


@pytest.fixture
def small_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are put together from three on, so that a few rows go through every tier."""
    monkeypatch.setattr(merging, "SMALLEST", 4)
    monkeypatch.setattr(merging, "AT_ONCE", 3)
