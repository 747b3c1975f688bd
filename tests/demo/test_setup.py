"""Whose folder it is."""

from pathlib import Path

import pytest
from small_demo import TINY

from surefind import InvalidFile
from surefind.demo import run_demo
from surefind.demo.run import claim


def test_a_folder_of_somebody_else_is_refused_and_left_alone(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"meow")
    with pytest.raises(InvalidFile, match=r"is no demo, and is not empty\n  fix: name a new"):
        run_demo(tmp_path, size=TINY)
    assert [path.name for path in tmp_path.rglob("*")] == ["photos", "cat.jpg"]


def test_an_empty_folder_and_one_with_hidden_files_are_taken(tmp_path: Path):
    (tmp_path / ".DS_Store").touch()
    claim(tmp_path, TINY, seed=0)
    assert (tmp_path / "demo.json").is_file()


def test_a_demo_is_taken_again_with_the_same_settings_only(tmp_path: Path):
    folder = tmp_path / "demo"
    claim(folder, TINY, seed=0)
    claim(folder, TINY, seed=0)
    with pytest.raises(InvalidFile, match="another seed: 0, not 1"):
        claim(folder, TINY, seed=1)
    with pytest.raises(InvalidFile, match="another size"):
        claim(folder, type(TINY)(), seed=0)


@pytest.mark.parametrize("content", ["", "[]", '{"seed": '])
def test_a_damaged_note_is_told_of(tmp_path: Path, content: str):
    (tmp_path / "demo.json").write_text(content)
    with pytest.raises(InvalidFile, match="cannot read"):
        claim(tmp_path, TINY, seed=0)
