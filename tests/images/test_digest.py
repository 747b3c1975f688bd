"""Digests of image files."""

from surefind.images import digest
from surefind.images.digest import file_digests


def test_only_files_of_equal_size_are_read(tmp_path, monkeypatch):
    contents = {"a": b"one", "b": b"two", "c": b"three", "d": b"one", "e": b"other"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    read, digest_of = [], digest.digest_of
    monkeypatch.setattr(digest, "digest_of", lambda file: read.append(file.name) or digest_of(file))
    (tmp_path / "f").write_bytes(b"of a size of its own")
    found = file_digests([tmp_path / name for name in "abcdefx"])
    assert read == ["a", "b", "c", "d", "e"]
    assert found[0] == found[3] != "" and len(set(found[:3])) == 3
    assert found[5:] == ["", ""]
