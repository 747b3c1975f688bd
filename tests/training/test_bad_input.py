"""What a user gets wrong: one clear error, exit 1, nothing half-written."""

import shutil
import sys

import pytest
import torch
from safetensors.torch import save_file

from surefind.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line; the exit code and what it told on standard error."""

    def call(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["surefind", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return call


@pytest.fixture
def toml(recipe, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(recipe().to_toml())
    return path


def assert_refused(result: tuple[int, str], *words: str) -> None:
    code, told = result
    assert code == 1
    assert told.startswith("error: ")
    assert "\n  fix: " in told
    assert "Traceback" not in told
    for word in words:
        assert word in told


def test_an_empty_folder(run, toml, tmp_path):
    (tmp_path / "empty").mkdir()
    result = run("train", tmp_path / "empty", "-o", tmp_path / "model", "--recipe", toml)
    assert_refused(result, "empty")
    assert not (tmp_path / "model").exists()


def test_a_folder_that_is_not_there(run, toml, tmp_path):
    assert_refused(run("train", tmp_path / "none", "-o", tmp_path / "m", "--recipe", toml), "none")


def test_one_class(run, toml, pictures, tmp_path):
    shutil.copytree(pictures / "class00", tmp_path / "one" / "class00")
    result = run("train", tmp_path / "one", "-o", tmp_path / "model", "--recipe", toml)
    assert_refused(result, "two classes")
    assert not (tmp_path / "model").exists()


def test_test_classes_alone(run, toml, pictures, tmp_path):
    for number, folder in enumerate(sorted(pictures.iterdir())[:3], start=99):
        shutil.copytree(folder, tmp_path / "cars" / f"{number:03d}.Name")
    result = run(
        "train", f"cars196:{tmp_path / 'cars'}", "-o", tmp_path / "model", "--recipe", toml
    )
    assert_refused(result, "holds test classes only")
    assert not (tmp_path / "model").exists()


def test_classes_with_one_image(run, toml, pictures, tmp_path):
    for folder in sorted(pictures.iterdir()):
        (tmp_path / "single" / folder.name).mkdir(parents=True)
        shutil.copy(folder / "0.png", tmp_path / "single" / folder.name)
    result = run("train", tmp_path / "single", "-o", tmp_path / "model", "--recipe", toml)
    assert_refused(result, "two images")
    assert not (tmp_path / "model").exists()


def test_unreadable_files(run, toml, pictures, tmp_path):
    copy = shutil.copytree(pictures, tmp_path / "copy")
    for file in copy.glob("*/*.png"):
        file.write_bytes(b"not an image")
    result = run("train", copy, "-o", tmp_path / "model", "--recipe", toml)
    assert_refused(result, "cannot be used", "not an image")
    assert not (tmp_path / "model" / "config.json").exists()


def test_a_wrong_key(run, toml, pictures, tmp_path):
    toml.write_text("[loss]\nmargni = 0.1\n")
    result = run("train", pictures, "-o", tmp_path / "model", "--recipe", toml)
    assert_refused(result, "loss.margni", "did you mean 'margin'?")
    assert not (tmp_path / "model").exists()


def train_with(run, toml, pictures, tmp_path, *settings: str) -> tuple[int, str]:
    more = [word for setting in settings for word in ("--set", setting)]
    return run("train", pictures, "-o", tmp_path / "model", "--recipe", toml, *more)


def test_an_unknown_backbone(run, toml, pictures, tmp_path):
    result = train_with(run, toml, pictures, tmp_path, "encoder.backbone=resnet51")
    assert_refused(result, "resnet51", "resnet50")
    assert not (tmp_path / "model").exists()


def test_weights_of_another_architecture(run, toml, pictures, tmp_path):
    save_file({"conv1.weight": torch.zeros(3, 3)}, tmp_path / "other.safetensors")
    result = train_with(
        run, toml, pictures, tmp_path, f"encoder.weights={tmp_path / 'other.safetensors'}"
    )
    assert_refused(result, "another architecture")
    assert not (tmp_path / "model").exists()


def test_weights_that_are_not_there(run, toml, pictures, tmp_path):
    result = train_with(run, toml, pictures, tmp_path, "encoder.weights=nowhere.safetensors")
    assert_refused(result, "nowhere.safetensors")
    assert not (tmp_path / "model").exists()


def test_a_folder_that_cannot_be_written(run, toml, pictures, tmp_path):
    (tmp_path / "file").write_text("in the way")
    result = run("train", pictures, "-o", tmp_path / "file" / "model", "--recipe", toml)
    assert_refused(result, "cannot write", "writable")
    assert (tmp_path / "file").read_text() == "in the way"


def test_check_counts_and_names_what_is_rejected(run, pictures, tmp_path, capsys):
    copy = shutil.copytree(pictures, tmp_path / "copy")
    (copy / "class03" / "1.png").write_bytes(b"<html>")
    for number in range(1, 5):
        (copy / "class05" / f"{number}.png").unlink()
    sys.argv = ["surefind", "check", str(copy)]
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().out
    assert ended.value.code == 1
    assert "56 images, 55 usable" in told
    assert "class03/1.png" in told
    assert "class05" in told
