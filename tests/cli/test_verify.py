"""surefind verify as a user calls it."""

import json
import shutil
from pathlib import Path

import pytest

from surefind.search.index import Index


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.fixture
def made(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "made"))


def test_a_whole_index_is_as_it_was_written(surefind, finished: Path):
    done = surefind("verify", finished, "--repair")
    assert done.code == 0
    assert done.out == "20 images, everything as it was written\n"


def test_a_flipped_bit_in_the_vectors_is_found(surefind, made: Path):
    damage(*(made / "store").glob("*.vectors"))
    done = surefind("verify", made)
    assert done.code == 1
    assert "fix: restore the folder from a copy" in done.err
    assert "everything" not in done.out


def test_a_damaged_row_is_found_and_stays_a_failure(surefind, made: Path):
    content = (made / "store" / "index.db").read_bytes()
    (made / "store" / "index.db").write_bytes(content.replace(b'"label"', b'"lebal"', 1))
    done = surefind("verify", made, "--repair")
    assert done.code == 1
    assert "is not as it was written\n" in done.out
    assert done.out.splitlines()[-1].startswith("  fix: restore the folder")


@pytest.mark.parametrize("left", [[], ["rows 3\x1b are damaged"]])
def test_what_was_repaired_is_checked_again(surefind, finished: Path, monkeypatch, left):
    found = [["rows 3\x1b are damaged"], left] * 2
    monkeypatch.setattr(Index, "verify", lambda index: found.pop(0))
    monkeypatch.setattr(Index, "repair", lambda index: "the graph was built again")
    done = surefind("verify", finished, "--repair")
    assert done.code == (1 if left else 0)
    whole = "20 images, everything as it was written\n"
    told = "rows 3� are damaged\n  fix: restore the folder" if left else whole
    assert done.out.startswith(f"repaired: the graph was built again\n{told}")
    facts = json.loads(surefind("verify", finished, "--repair", "--json").out)
    assert (facts["problems"], facts["repaired"]) == (left, "the graph was built again")


def test_the_remedy_names_the_command(surefind, finished: Path, monkeypatch):
    monkeypatch.setattr(Index, "verify", lambda index: ["rows are damaged"])
    assert f"surefind verify {finished} --repair" in surefind("verify", finished).out
