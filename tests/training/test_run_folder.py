"""Checkpoints: written whole or not at all, and read without executing code."""

import os
import pickle

import pytest
import torch

from surefind.errors import InvalidFile
from surefind.training.run_folder import load_state, save_state


def test_a_state_comes_back_as_it_was(tmp_path):
    save_state(tmp_path / "state.pt", {"step": 3, "weights": {"a": torch.arange(3.0)}})
    state = load_state(tmp_path / "state.pt")
    assert state["step"] == 3
    assert torch.equal(state["weights"]["a"], torch.arange(3.0))


class Malicious:
    def __init__(self, canary) -> None:
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


@pytest.mark.parametrize("writer", ["pickle", "torch"])
def test_a_malicious_state_is_refused_and_does_nothing(tmp_path, writer: str):
    canary, path = tmp_path / "canary", tmp_path / "state.pt"
    if writer == "pickle":
        path.write_bytes(pickle.dumps(Malicious(canary)))
    else:
        torch.save({"version": 1, "step": Malicious(canary)}, path)
    with pytest.raises(InvalidFile, match="not a readable checkpoint"):
        load_state(path)
    assert not canary.exists()


def test_a_missing_broken_or_foreign_state_is_one_clear_error(tmp_path):
    with pytest.raises(InvalidFile, match="nothing to resume"):
        load_state(tmp_path / "none.pt")
    save_state(tmp_path / "state.pt", {"weights": torch.zeros(1000)})
    whole = (tmp_path / "state.pt").read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        (tmp_path / "half.pt").write_bytes(whole[:length])
        with pytest.raises(InvalidFile, match="not a readable checkpoint"):
            load_state(tmp_path / "half.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(InvalidFile, match="another version"):
        load_state(tmp_path / "list.pt")


def test_a_failed_write_leaves_the_older_state(tmp_path, monkeypatch):
    path = tmp_path / "state.pt"
    save_state(path, {"step": 1})

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidFile, match="No space left"):
        save_state(path, {"step": 2})
    assert load_state(path)["step"] == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.pt"]
