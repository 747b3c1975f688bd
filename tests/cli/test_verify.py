"""surefind verify as a user calls it."""

import json
import shutil
from pathlib import Path

import pytest
from pictures import write_pictures

from surefind.search.index import Index


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def largest(folder: Path) -> Path:
    return max(
        (path for path in folder.rglob("*") if path.is_file()), key=lambda p: p.stat().st_size
    )


@pytest.fixture
def made(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "made"))


def test_a_whole_index_is_as_it_was_written(surefind, finished: Path):
    done = surefind("verify", finished, "--repair")
    assert done.code == 0
    assert done.out == "20 images, everything as it was written\n"


def test_a_flipped_bit_in_the_vectors_is_found(surefind, made: Path):
    damage(largest(made / "store"))
    done = surefind("verify", made)
    assert done.code == 1
    assert f"fix: surefind verify {made} --repair" in done.out
    assert "everything" not in done.out


def test_a_flipped_bit_in_the_model_is_found(surefind, made: Path):
    damage(made / "model" / "model.safetensors")
    done = surefind("verify", made, "--json")
    assert done.code == 1
    assert json.loads(done.out)["problems"]


def test_repair_goes_back_to_the_last_whole_version(
    surefind, model: Path, photos: Path, made: Path
):
    write_pictures(photos / "more", classes=1, per_class=2, seed=5)
    surefind("index", model, photos, "-o", made, "--no-compact")
    damage(max((made / "store").rglob("*.segment"), key=lambda path: path.stat().st_mtime_ns))
    done = surefind("verify", made)
    assert (done.code, "checksum" in done.out) == (1, True)
    done = surefind("verify", made, "--repair")
    assert done.code == 0
    assert "repaired: " in done.out
    assert done.out.endswith("20 images, everything as it was written\n")
    assert surefind("verify", made).code == 0


def test_what_cannot_be_repaired_stays_a_failure(surefind, finished: Path, monkeypatch):
    monkeypatch.setattr(Index, "verify", lambda index: ["rows 3\x1b are damaged"])
    monkeypatch.setattr(Index, "repair", lambda index: "nothing to go back to")
    done = surefind("verify", finished, "--repair")
    assert done.code == 1
    assert "rows 3� are damaged\n  fix: restore the folder" in done.out
    told = json.loads(surefind("verify", finished, "--repair", "--json").out)
    assert told["problems"] and told["repaired"] == "nothing to go back to"
