"""An index remembers the folders that its images came from."""

import os
from pathlib import Path

import pytest
from pictures import write_pictures
from stores import flip_bit

import surefind as sf
from surefind.images.catalog import Catalog
from surefind.search.image_files import read_picture
from surefind.search.index import Index


@pytest.fixture(scope="module")
def encoder() -> sf.Encoder:
    return sf.Encoder.create(sf.EncoderConfig(backbone="tiny", dim=8), seed=1).eval()


@pytest.fixture
def photos(tmp_path) -> Path:
    return write_pictures(tmp_path / "photos", classes=2, per_class=2)


@pytest.fixture
def index(tmp_path, encoder, photos) -> Index:
    return Index.create(tmp_path / "index", encoder, photos)


def test_the_folder_of_a_catalog_is_remembered(index, tmp_path, photos):
    assert index.picture_roots == (photos,)
    assert Index.open(tmp_path / "index").picture_roots == (photos,)


def test_links_to_the_folder_are_followed_when_it_is_added(tmp_path, encoder, photos, monkeypatch):
    (tmp_path / "link").symlink_to(photos)
    monkeypatch.chdir(tmp_path)
    index = Index.create("index", encoder, "link")
    assert index.picture_roots == (photos,)


def test_another_folder_is_remembered_beside_the_first(index, tmp_path, photos):
    more = write_pictures(tmp_path / "more", classes=1, per_class=2, seed=3)
    index.add(Catalog(more, ("class00/0.png",), ids=("another",)))
    assert index.picture_roots == tuple(sorted([photos, more]))
    assert index.verify() == []


def test_of_images_one_by_one_their_folders_are_remembered(tmp_path, encoder, photos):
    index = Index.create(tmp_path / "index", encoder)
    files = sorted(photos.rglob("*.png"))
    index.add([files[0], str(files[1]), files[2], files[3].read_bytes()])
    assert index.picture_roots == (photos / "class00", photos / "class01")


def test_images_without_a_path_leave_nothing_to_remember(tmp_path, encoder, photos):
    index = Index.create(tmp_path / "index", encoder)
    index.add([next(photos.rglob("*.png")).read_bytes()])
    assert index.picture_roots == ()
    assert not (tmp_path / "index" / "pictures.json").exists()


@pytest.mark.parametrize("how", ["flipped", "empty", "other", "folder"])
def test_a_damaged_file_is_named_by_verify_and_stops_nothing(index, tmp_path, photos, how):
    file = tmp_path / "index" / "pictures.json"
    if how == "flipped":
        flip_bit(file)
    elif how == "folder":
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(b"" if how == "empty" else b'{"roots": ["/"]}\n')
    with Index.open(tmp_path / "index") as again:
        assert again.picture_roots == ()
        assert [problem for problem in again.verify() if str(file) in problem]
        assert again.search(next(photos.rglob("*.png"))).hits
        assert again.add(photos).known == 4
        if how != "folder":  # a file cannot take its place
            assert again.picture_roots == (photos,) and again.verify() == []


def test_where_it_cannot_be_written_images_are_added_all_the_same(tmp_path, encoder, photos):
    index = Index.create(tmp_path / "index", encoder)
    (tmp_path / "index" / "lock").mkdir()
    assert index.add(photos).added == 4
    assert index.picture_roots == ()


def test_a_folder_whose_name_is_not_a_text_is_remembered(tmp_path, encoder, photos):
    odd = photos.rename(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    index = Index.create(tmp_path / "index", encoder)
    index.add([(odd / "class00/0.png").read_bytes()], ids=["a"])
    index.add(Catalog(odd, ("class01/0.png",)), metadata=[{"path": ""}])
    assert index.picture_roots == (odd,)


def test_every_picture_of_an_index_can_be_read(index, photos):
    rows = index.items([path.relative_to(photos).as_posix() for path in photos.rglob("*.png")])
    assert len(rows) == 4
    for name, facts, digest in zip(rows.ids, rows.metadata, rows.digests, strict=True):
        content = read_picture(name, facts, digest, roots=index.picture_roots, max_bytes=10**6)
        assert content == (photos / name).read_bytes()
