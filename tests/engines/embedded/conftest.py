"""Shared by the tests of the embedded engine: a place for an index, and a quick disk."""

import os
from pathlib import Path

import pytest

from surefind import storage
from surefind.engines.embedded import engine


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here: what waits for the disk waits for nothing."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(storage, "fsync", lambda _: None)
    monkeypatch.setattr(storage, "SYNCHRONOUS", "OFF")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows fill several blocks."""
    monkeypatch.setattr(engine, "BLOCK", 8)
