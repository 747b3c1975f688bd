"""Files appear whole and durably, or not at all."""

import errno
import os
from pathlib import Path

import pytest

from surefind import files
from surefind.errors import InvalidFile
from surefind.files import sync_folder, whole_file, write_whole


def test_a_file_is_replaced_whole(tmp_path: Path):
    path = tmp_path / "file"
    write_whole(path, b"older and longer")
    write_whole(path, memoryview(b"newer"))
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]


def test_two_that_write_one_file_at_a_time_both_succeed(tmp_path: Path):
    """As threads of one process do; the last to finish is what stays."""
    path = tmp_path / "file"
    with whole_file(path) as first:
        first.write(b"first")
        with whole_file(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_file_then_name_then_folder_reach_the_disk(tmp_path: Path, monkeypatch):
    steps: list[str] = []
    rename = Path.replace
    monkeypatch.setattr(os, "fsync", lambda _: steps.append("file"))
    monkeypatch.setattr(files, "fsync", lambda _: steps.append("folder"))
    monkeypatch.setattr(Path, "replace", lambda *to: (steps.append("name"), rename(*to))[1])
    write_whole(tmp_path / "file", b"content")
    assert steps == ["file", "name", "folder"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(errno.EIO, "broken"), ValueError()])
def test_what_is_not_finished_is_removed(tmp_path: Path, stop: BaseException):
    path = tmp_path / "file"
    write_whole(path, b"older")

    def write_half() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise stop

    with pytest.raises(type(stop)):
        write_half()
    assert path.read_bytes() == b"older" and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_synced_is_an_error_unless_it_never_can(tmp_path, monkeypatch):
    def failing(code: int):
        def fail(_: int) -> None:
            raise OSError(code, os.strerror(code))

        return fail

    monkeypatch.setattr(files, "fsync", failing(errno.EINVAL))
    sync_folder(tmp_path)
    monkeypatch.setattr(files, "fsync", failing(errno.EIO))
    with pytest.raises(InvalidFile, match="cannot write"):
        write_whole(tmp_path / "file", b"content")


def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path: Path):
    with pytest.raises(InvalidFile, match="No such file") as raised:
        write_whole(tmp_path / "none" / "file", b"")
    assert "writable" in raised.value.fix
