"""The built-in data."""

import shutil
import threading
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from surefind.datasets import glyphs as module
from surefind.datasets import open_dataset, read_catalog
from surefind.datasets.glyphs import SYMBOL_FACES, TEXT_FACES, draw_glyph, draw_glyphs, letters, render, symbols
from surefind.errors import InvalidArgument, InvalidFile

SMALL = {"classes": 16, "per_class": 3, "foreign": 5}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_glyphs(tmp_path_factory.mktemp("glyphs") / "small", **SMALL)


def pixels(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): Image.open(path).tobytes() for path in sorted(folder.rglob("*.png"))}


def spoiled(difficulty: float, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    image = draw_glyph("R", "DejaVuSans", difficulty=difficulty, random=random)
    return np.asarray(image, dtype=float)


def test_letters_that_look_alike_are_one_class():
    kept = set(letters())
    assert len(kept) >= 320 and len(symbols()) >= 300
    assert "A" in kept and not kept & {"Α", "А"}  # noqa: RUF001 - Alpha and the Cyrillic A
    assert len(kept & {"o", "O", "О", "ο"}) == 1  # noqa: RUF001


def test_the_data_is_split_by_class(small):
    splits = open_dataset(small / "images.csv")
    sizes = [len(part.classes) for part in (splits.train, splits.val, splits.test)]
    assert sizes == [10, 2, 4]
    assert len(splits.test) == 12
    assert splits.foreign is not None and len(splits.foreign) == 5
    assert all(0 <= value <= 1 for value in splits.train.difficulty)


def test_the_same_seed_draws_the_same_pixels(small, tmp_path):
    again = pixels(draw_glyphs(tmp_path / "again", **SMALL))
    assert again == pixels(small)
    other = draw_glyphs(tmp_path / "other", **SMALL, seed=1)
    assert pixels(other).keys() != again.keys()  # other classes, too


def test_an_image_does_not_depend_on_the_others(small):
    catalog = read_catalog(small / "images.csv")
    for row in (0, len(catalog) // 2, len(catalog) - 1):
        part, label, name = catalog.paths[row].split("/")
        char = chr(int(label.removeprefix("U+"), base=16))
        faces = SYMBOL_FACES if part == "foreign" else TEXT_FACES
        image, difficulty = render(char, int(name[:3]), faces=faces, seed=0)
        assert (image.mode, image.size) == ("L", (32, 32))
        assert image.tobytes() == Image.open(catalog.file(row)).tobytes()
        assert difficulty == catalog.difficulty[row]


def test_difficulty_is_how_much_is_spoiled():
    damage = [
        np.mean([abs(spoiled(level, seed) - spoiled(0, seed)).mean() for seed in range(20)])
        for level in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert damage[0] == 0 and all(np.diff(damage) > 5)


def test_every_face_draws_every_character_inside_the_page():
    for faces, chars in ((TEXT_FACES, letters()[::40]), (SYMBOL_FACES, symbols()[::60])):
        for face, char in product(faces, chars):
            random = np.random.default_rng(ord(char))
            assert np.asarray(draw_glyph(char, face, difficulty=0, random=random)).min() < 160


def test_finished_data_is_used_again(small, monkeypatch):
    monkeypatch.setattr(module, "_write", lambda *_: pytest.fail("drawn again"))
    assert draw_glyphs(small, **SMALL) == small


def test_data_of_other_settings_is_not_overwritten(small):
    with pytest.raises(InvalidFile, match="drawn with other settings"):
        draw_glyphs(small, **SMALL, seed=3)


def test_a_folder_of_something_else_is_left_alone(write_tree):
    root = write_tree("thesis.txt")
    with pytest.raises(InvalidFile, match="not empty, and holds no glyphs"):
        draw_glyphs(root, **SMALL)
    assert [path.name for path in root.iterdir()] == ["thesis.txt"]


def test_missing_images_are_noticed(small, tmp_path):
    copy = Path(shutil.copytree(small, tmp_path / "copy"))
    read_catalog(copy / "images.csv").file(20).unlink()
    with pytest.raises(InvalidFile, match="1 glyphs are missing") as caught:
        draw_glyphs(copy, **SMALL)
    assert "drawn again" in (caught.value.fix or "")


def test_a_failed_drawing_leaves_nothing(tmp_path, monkeypatch):
    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full_disk)
    with pytest.raises(InvalidFile, match="No space left on device"):
        draw_glyphs(tmp_path / "new", **SMALL)
    assert list(tmp_path.iterdir()) == []


def test_two_that_draw_at_once_both_succeed(tmp_path):
    done: list[Path] = []
    draw_one = lambda: done.append(draw_glyphs(tmp_path / "shared", **SMALL))
    threads = [threading.Thread(target=draw_one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("classes", 4, "greater than .* 16"), ("classes", 9999, "at most"),
     ("per_class", 1, "greater than .* 2"), ("foreign", -1, "greater than .* 0"),
     ("seed", -1, "greater than .* 0")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(tmp_path, name, value, expected):
    with pytest.raises(InvalidArgument, match=f"{name}: expected {expected}"):
        draw_glyphs(tmp_path / "new", **{**SMALL, name: value})


def test_the_built_in_data_opens_by_name(monkeypatch, tmp_path, small):
    drawn = []
    monkeypatch.setattr(module, "draw_glyphs", lambda folder: drawn.append(folder) or small)
    monkeypatch.setenv("SUREFIND_CACHE", str(tmp_path))
    splits = open_dataset("glyphs")
    assert splits.name == "glyphs"
    assert len(read_catalog(f"glyphs:{tmp_path / 'mine'}")) == 53
    assert drawn == [tmp_path / "glyphs-v1", tmp_path / "mine"]
