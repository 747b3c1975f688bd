"""Small files that carry their checksum, and what they may say."""

import json
from pathlib import Path

import pytest
from stores import made

from surefind.engines.embedded import sealed
from surefind.engines.embedded.damage import Damaged, Missing
from surefind.engines.embedded.manifest import Kept, Manifest, Pointer, Store, dump, parse_record
from surefind.engines.embedded.sealed import read_small, seal, unseal
from surefind.errors import InvalidFile

PATH = Path("some.json")
STORE = {
    "schema": 1,
    "identity": "0" * 32,
    "family": "gaussian",
    "dim": 3,
    "ranking": "mean",
    "kind": "flat",
    "facts": {"a": [1, 2.5, "ü", None, True]},
}


def test_facts_come_back_as_they_were_sealed():
    assert unseal(PATH, seal(STORE)) == STORE


def test_every_changed_bit_is_seen():
    content = bytearray(seal(STORE))
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damaged):
            unseal(PATH, bytes(content))
        content[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"checksum": 3}',
        b"[" * 100_000,
        b"\xff",
        b'{"a": ' + b"9" * 9999 + b"}",
        seal(STORE)[:-1],
        seal(STORE) + b"\n",
        json.dumps(json.loads(seal(STORE)), indent=1).encode(),  # the same facts, otherwise written
    ],
)
def test_whatever_was_not_sealed_is_refused(content: bytes):
    with pytest.raises(Damaged):
        unseal(PATH, content)


def test_a_file_of_endless_length_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(sealed, "LARGEST", 100)
    (tmp_path / "long").write_bytes(bytes(101))
    with pytest.raises(Damaged, match="too large"):
        read_small(tmp_path / "long")


def test_a_file_that_is_not_there_is_missing(tmp_path):
    with pytest.raises(Missing, match="missing"):
        read_small(tmp_path / "none")


def test_a_store_comes_back():
    store = parse_record(PATH, Store, STORE)
    assert store.space.width == 3 and store.facts["a"][2] == "ü"
    assert parse_record(PATH, Store, dump(store)) == store


@pytest.mark.parametrize(
    "wrong",
    [
        {"dim": 0},
        {"dim": "3"},
        {"dim": True},
        {"family": "unknown"},
        {"kind": "magic"},
        {"facts": []},
        {"schema": 0},
        {"more": 1},
    ],
)
def test_a_store_that_cannot_be_is_refused(wrong):
    with pytest.raises(Damaged, match="does not know"):
        parse_record(PATH, Store, STORE | wrong)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "a.segment", "A" * 32 + ".segment", "", "x\n"]
)
def test_a_manifest_cannot_name_files_elsewhere(name: str):
    with pytest.raises(Damaged):
        parse_record(PATH, Kept, {"name": name, "bytes": 1, "sha256": "0" * 64})


@pytest.mark.parametrize("number", [-1, 2**70, 1.5, True, "1", None])
def test_a_number_that_cannot_be_is_refused(number: object):
    with pytest.raises(Damaged):
        parse_record(PATH, Pointer, {"version": number, "sha256": "0" * 64})


def test_a_manifest_comes_back(place):
    manifest = made(place)._session.snapshot.manifest
    assert parse_record(PATH, Manifest, unseal(PATH, seal(dump(manifest)))) == manifest


def test_an_index_of_a_newer_release_is_told_apart_from_damage():
    with pytest.raises(InvalidFile, match="upgrade surefind") as raised:
        parse_record(PATH, Store, STORE | {"schema": 2})
    assert not isinstance(raised.value, Damaged)
