"""Small files that carry their checksum, and the lock of a folder's writer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from surefind import storage
from surefind.errors import SurefindError
from surefind.storage import Damaged, Missing, read_small, seal, unseal, writer_lock

PATH = Path("some.json")
FACTS = {"schema": 1, "kind": "flat", "facts": {"a": [1, 2.5, "ü", None, True]}}


def test_facts_come_back_as_they_were_sealed():
    assert unseal(PATH, seal(FACTS)) == FACTS


def test_every_changed_bit_is_seen():
    content = bytearray(seal(FACTS))
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
        b'{"checksum": 3}',
        b"[" * 100_000,
        b"\xff",
        b'{"a": ' + b"9" * 9999 + b"}",
        seal(FACTS)[:-1],
        seal(FACTS) + b"\n",
        json.dumps(json.loads(seal(FACTS)), indent=1).encode(),  # the same facts, otherwise written
    ],
)
def test_whatever_was_not_sealed_is_refused(content: bytes):
    with pytest.raises(Damaged):
        unseal(PATH, content)


def test_a_file_of_endless_length_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "LARGEST", 100)
    (tmp_path / "long").write_bytes(bytes(101))
    with pytest.raises(Damaged, match="too large"):
        read_small(tmp_path / "long")


def test_a_file_that_is_not_there_is_missing(tmp_path):
    with pytest.raises(Missing, match="missing"):
        read_small(tmp_path / "none")


def test_one_writer_holds_the_lock_and_the_next_waits_for_it(tmp_path, monkeypatch):
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout.readline() == "held\n"
        with monkeypatch.context() as patch:
            patch.setattr(storage, "PATIENCE", 0.05)
            with pytest.raises(SurefindError, match="another process"), writer_lock(tmp_path):
                pass
        child.stdin.close()
        with writer_lock(tmp_path):
            pass


def test_a_lock_that_was_deleted_keeps_nobody_out(tmp_path):
    with writer_lock(tmp_path):
        (tmp_path / "lock").unlink()
        with writer_lock(tmp_path):
            pass
