"""Pictures of an index are read if they are those pictures and lie where they may."""

import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from class_folders import write_pictures
from stores import change_documents

import surefind as sf
from surefind import storage
from surefind.images.catalog import Catalog
from surefind.search.folder import PictureUnavailable, read_picture
from surefind.search.index import Index

CONTENT = b"a picture"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
MOST = 1000


@pytest.fixture
def root(tmp_path) -> Path:
    """With a picture in it, and a secret outside."""
    folder = tmp_path / "root"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "b.png").write_bytes(CONTENT)
    (tmp_path / "secret").write_bytes(CONTENT)
    (tmp_path / "root2").mkdir()
    (tmp_path / "root2" / "c.png").write_bytes(CONTENT)
    return folder


def read(name: str, *roots: Path, path: object = None, digest: str = DIGEST) -> bytes:
    facts = {} if path is None else {"path": path}
    return read_picture(name, facts, digest, roots=roots, max_bytes=MOST)


def why(name: str, *roots: Path, path: object = None, digest: str = DIGEST) -> str:
    with pytest.raises(PictureUnavailable) as caught:
        read(name, *roots, path=path, digest=digest)
    return caught.value.why


# where it is looked for


def test_it_is_read_at_the_path_that_is_written_down(root):
    assert read("some id", root, path=str(root / "a" / "b.png")) == CONTENT


def test_it_is_read_by_its_id_where_the_folder_was_moved_to(root, tmp_path):
    path = str(root / "a" / "b.png")
    moved = root.rename(tmp_path / "moved")
    assert "not there any more" in why("a/b.png", root, path=path)
    assert read("a/b.png", root, moved, path=path) == CONTENT


def test_a_path_that_is_relative_is_one_in_a_root(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read("x", root, path="a/b.png") == CONTENT
    assert "not there" in why("x", root, path="root/a/b.png")


def test_a_root_may_be_a_link(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    assert read("a/b.png", tmp_path / "link") == CONTENT
    assert read("x", root, path=str(tmp_path / "link" / "a" / "b.png")) == CONTENT


# what is refused


def test_without_roots_nothing_is_read(root):
    assert "not there" in why("a/b.png", path=str(root / "a" / "b.png"))


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "../root2/c.png"])
def test_what_is_outside_is_refused(root, name):
    assert "outside the folders" in why(name, root)
    assert "outside the folders" in why("x", root, path=str(root / name))


def test_links_out_of_the_root_are_refused(root, tmp_path):
    (root / "file").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "two").symlink_to(root / "file")
    for name in ("file", "folder/secret", "two"):
        assert "outside the folders" in why(name, root)


def test_a_file_with_another_content_is_refused(root):
    (root / "a" / "b.png").write_bytes(CONTENT + b".")
    assert "changed since it was indexed" in why("a/b.png", root)


def test_without_a_digest_any_content_will_do(root):
    (root / "a" / "b.png").write_bytes(b"new")
    assert read("a/b.png", root, digest="") == b"new"


def test_a_file_that_is_too_large_is_refused_and_one_of_the_size_is_not(root):
    (root / "large").write_bytes(bytes(MOST + 1))
    (root / "fits").write_bytes(bytes(MOST))
    assert "more than 1,000 bytes" in why("large", root, digest="")
    assert len(read("fits", root, digest="")) == MOST


def test_what_is_no_plain_file_is_refused_without_waiting(root):
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        try:
            listening.bind(str(root / "socket"))
        except OSError:  # its path is too long here
            os.mkfifo(root / "socket")
        for name in ("pipe", "socket", "a", ".", ""):
            assert "plain file" in why(name, root, digest=""), name


def test_a_pipe_that_takes_the_place_of_the_file_is_refused_without_waiting(root, monkeypatch):
    """After it was looked at, before it was opened."""
    real = os.open

    def late(path, *its):
        Path(path).unlink()
        os.mkfifo(path)
        return real(path, *its)

    monkeypatch.setattr(os, "open", late)
    assert "plain file" in why("a/b.png", root)


def test_a_link_that_takes_the_place_of_the_file_is_not_followed(root, tmp_path, monkeypatch):
    real = os.open

    def late(path, *its):
        Path(path).unlink()
        Path(path).symlink_to(tmp_path / "secret")
        return real(path, *its)

    monkeypatch.setattr(os, "open", late)
    assert "not there" in why("a/b.png", root)


def test_links_in_a_circle_lead_nowhere(root):
    (root / "one").symlink_to(root / "two")
    (root / "two").symlink_to(root / "one")
    assert "not there" in why("one", root)


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "a/" * 3000, "\udcff", "a/b.png/c"])
def test_names_that_no_file_has_are_not_there(root, name):
    assert "not there" in why(name, root, path=name)


def test_the_reason_tells_no_path(root, tmp_path):
    for name in ("../secret", "nothing", "a"):
        with pytest.raises(PictureUnavailable) as caught:
            read(name, root, path=str(tmp_path / "secret"))
        assert str(tmp_path) not in str(caught.value)


def test_the_reason_is_the_one_that_says_most(root):
    (root / "b.png").write_bytes(b"other")
    assert "changed" in why("b.png", root, path=str(root / "gone" / "b.png"))


# nothing else is opened

STEPS = ("..", "../..", "../../..", "../" * 12, "a/../..", "./..", "..//..", "out", "out/..", "/")
GOALS = ("secret", "/secret", "etc/passwd", "/etc/passwd", "proc/self/environ", "dev/zero", "pipe")
ODD = (
    "..\\..\\secret",
    "%2e%2e/secret",
    "..%2fsecret",
    "..%c0%afsecret",
    "\u2025/secret",
    "..\0/secret",
    "../secret\0.png",
    "file:///etc/passwd",
    "~/.bashrc",
    "~root",
    "//etc/passwd",
    "C:\\secret",
    "....//secret",
    "..;/secret",
    "/dev/stdin",
    "/dev/tty",
    "/proc/self/fd/0",
    "/proc/self/root/etc/passwd",
    "file",
    "a/" * 3000 + "../" * 3001 + "secret",
)

RECORDING = """
import json, os, sys
from pathlib import Path
from surefind.search.folder import PictureUnavailable, read_picture

root, names = Path(sys.argv[1]), json.loads(sys.stdin.read())
opened, read = [], 0
def heard(event, its):
    if recording and event in ("open", "os.listdir", "os.scandir"):
        if not isinstance(its[0], int):  # that was open already
            opened.append(os.fspath(its[0]))
recording = False
sys.addaudithook(heard)
recording = True
for name in ["a/b.png", *names]:
    for facts in ({}, {"path": name}, {"path": str(root) + "/" + name}):
        try:
            read_picture(name, facts, "", roots=[root], max_bytes=1000)
            read += 1
        except PictureUnavailable:
            pass
recording = False
print(json.dumps([read, opened]))
"""


def test_nothing_outside_the_roots_is_ever_opened(root, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (root / "out").symlink_to(tmp_path)
    (root / "file").symlink_to(tmp_path / "secret")
    names = [f"{step}/{goal}" for step in STEPS for goal in GOALS] + list(ODD)
    names += [str(tmp_path / "secret"), str(root / "../secret"), f"{root}2/c.png"]
    assert len(set(names)) >= 60
    done = subprocess.run(
        [sys.executable, "-c", RECORDING, root],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    read, opened = json.loads(done.stdout)
    assert read == 3  # the picture, each time
    assert opened == [str(root / "a" / "b.png")] * 3


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


def test_damage_is_named_by_verify_and_stops_nothing(index, tmp_path, photos):
    file = tmp_path / "index" / "store" / "index.db"
    change_documents(file, "UPDATE documents SET content = '/'", "picture root")
    with Index.open(tmp_path / "index") as again:
        assert again.picture_roots == ()
        assert [problem for problem in again.verify() if str(file) in problem]
        assert again.search(next(photos.rglob("*.png"))).hits
        assert again.add(photos).known == 4
        assert again.picture_roots == (photos,) and again.verify() == []


def test_where_it_cannot_be_written_images_are_added_all_the_same(tmp_path, encoder, photos, monkeypatch):
    index = Index.create(tmp_path / "index", encoder)
    monkeypatch.setattr(storage, "DOCUMENTS", "no SQL")
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
