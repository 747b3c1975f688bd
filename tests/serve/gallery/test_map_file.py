"""A kept map: read back only whole and only for the images it was made of."""

from dataclasses import replace

import numpy as np
import pytest

from surefind import files
from surefind.serve.gallery.map_file import read_map, write_map


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "map"


def positions_of(count: int):
    return np.random.default_rng(0).random((count, 2)).astype(np.float32)


def test_positions_come_back_as_they_were(folder, make_sketch):
    write_map(folder, make_sketch(20), positions=positions_of(20))
    assert np.array_equal(read_map(folder, make_sketch(20)), positions_of(20))


@pytest.mark.parametrize("count", [0, 1])
def test_the_smallest_maps_come_back(folder, make_sketch, count):
    write_map(folder, make_sketch(count), positions=positions_of(count))
    assert read_map(folder, make_sketch(count)).shape == (count, 2)


def test_there_is_none_before_one_is_written(folder, make_sketch):
    assert read_map(folder, make_sketch(20)) is None


def test_another_gallery_is_not_given_this_map(folder, make_sketch):
    own = make_sketch(20)
    write_map(folder, own, positions=positions_of(20))
    moved = own.means.copy()
    moved[3, 2] += 1
    assert read_map(folder, make_sketch(19)) is None
    assert read_map(folder, replace(own, means=moved)) is None
    assert read_map(folder, replace(own, ids=(*own.ids[:-1], "other.png"))) is None


def test_any_changed_byte_is_seen(folder, make_sketch):
    write_map(folder, make_sketch(3), positions=positions_of(3))
    (path,) = folder.iterdir()
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert read_map(folder, make_sketch(3)) is None
    path.write_bytes(content[:-9])
    assert read_map(folder, make_sketch(3)) is None


@pytest.mark.parametrize(
    "positions",
    [positions_of(19), positions_of(20) + 1, np.full((20, 2), -0.1), np.zeros((20, 2)) - 1e-3],
)
def test_positions_that_do_not_fit_are_not_taken(folder, make_sketch, positions):
    write_map(folder, make_sketch(20), positions=positions)
    assert read_map(folder, make_sketch(20)) is None


def test_older_maps_and_unfinished_files_are_removed_and_others_stay(folder, make_sketch):
    write_map(folder, make_sketch(20), positions=positions_of(20))
    (folder / ".map-0123.json.77.part").write_bytes(b"half")
    (folder / "notes.txt").write_bytes(b"mine")
    write_map(folder, make_sketch(21), positions=positions_of(21))
    assert len(list(folder.iterdir())) == 2
    assert read_map(folder, make_sketch(21)) is not None
    assert (folder / "notes.txt").exists()


def test_a_folder_that_cannot_be_written_is_left_alone(folder, make_sketch, monkeypatch):
    def full(file, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "put", full)
    write_map(folder, make_sketch(20), positions=positions_of(20))
    assert list(folder.iterdir()) == []


def test_a_file_where_the_folder_should_be_is_left_alone(folder, make_sketch):
    folder.write_bytes(b"mine")
    write_map(folder, make_sketch(20), positions=positions_of(20))
    assert read_map(folder, make_sketch(20)) is None
    assert folder.read_bytes() == b"mine"


def test_an_index_that_is_gone_is_not_made_anew(tmp_path, make_sketch):
    write_map(tmp_path / "gone" / "map", make_sketch(20), positions=positions_of(20))
    assert not (tmp_path / "gone").exists()
