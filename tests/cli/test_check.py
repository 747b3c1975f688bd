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
    shutil.copy(photos / "class03" / "1.png", photos / "class02" / "z.png")
    for name in ("one", "two"):  # equal, and rejected
        (photos / "class00" / f"{name}.png").write_bytes(b"<html>")
    done = surefind("check", photos)
    assert (done.code, "2 rejected:" in done.out, "3 twins" in done.out) == (1, True, True)
    assert "of the twins are in two classes" in done.out


def test_what_training_would_refuse_is_said(surefind, photos: Path):
    assert "refuse" not in surefind("check", photos).out
    for name in ("class02", "class03"):
        shutil.rmtree(photos / name)
    refusal = "photos: 2 classes; training needs at least two classes, and a test two others"
    assert f"surefind train would refuse this: {refusal}\n" in surefind("check", photos).out
    assert json.loads(surefind("check", photos, "--json").out)["refused_by_train"] == refusal


def test_a_flat_folder_is_checked_encoded_indexed_and_searched(surefind, photos: Path, model: Path):
    flat = Path("flat")
    flat.mkdir()
    for number, picture in enumerate(sorted(photos.rglob("*.png"))):
        shutil.copy(picture, flat / f"{number}.png")
    done = surefind("check", flat)
    assert done.code == 0 and "lie in no class folder" in done.out
    assert surefind("encode", model, flat, "-o", "flat.npz").code == 0
    assert surefind("index", flat, "-o", "index", "--model", model).code == 0
    found = json.loads(surefind("search", "index", flat, "--json").out)
    assert [one["hits"][0]["id"] for one in found] == [Path(one["query"]).name for one in found]
