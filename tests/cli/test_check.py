"""surefind check as a user calls it."""

import json
import shutil
from pathlib import Path


def test_files_that_are_copies_of_another_are_counted(surefind, photos: Path):
    assert "twins" not in surefind("check", photos).out
    for number in range(2):
        shutil.copy(photos / "class03" / "1.png", photos / "class03" / f"z{number}.png")
    done = surefind("check", photos)
    assert done.code == 0
    assert "2 twins (equal files):\n  class03/z0.png is class03/1.png" in done.out
    found = json.loads(surefind("check", photos, "--json").out)
    assert found["twins"] == {f"class03/z{n}.png": "class03/1.png" for n in range(2)}


def test_copies_of_rejected_files_are_not_counted(surefind, photos: Path):
    for name in ("one", "two"):
        (photos / "class00" / f"{name}.png").write_bytes(b"<html>")
    done = surefind("check", photos, "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert (len(found["rejected"]), found["twins"]) == (2, {})
