"""Errors of `surefind train`: one clear message, exit code 1, no model written."""

import shutil
import sys

import pytest

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


def assert_refused(result: tuple[int, str], model, *words: str) -> None:
    code, told = result
    assert code == 1
    assert told.startswith("error: ")
    assert "Traceback" not in told
    assert all(word in told for word in words)
    assert not (model / "config.json").exists()


def test_data_that_cannot_be_trained_on(run, toml, pictures, tmp_path):
    (tmp_path / "empty").mkdir()
    for number, folder in enumerate(sorted(pictures.iterdir())[:3], start=99):
        shutil.copytree(folder, tmp_path / "cars" / f"{number:03d}.Name")
    unreadable = shutil.copytree(pictures, tmp_path / "unreadable")
    for file in unreadable.glob("*/*.png"):
        file.write_bytes(b"not an image")
    for data, *words in (
        (tmp_path / "empty", "no images"),
        (f"cars196:{tmp_path / 'cars'}", "holds test classes only"),
        (unreadable, "cannot be used", "not an image"),
    ):
        result = run("train", data, "-o", tmp_path / "model", "--recipe", toml)
        assert_refused(result, tmp_path / "model", *words)


def test_a_misspelt_recipe_or_key_is_answered_with_the_nearest_name(run, toml, pictures, tmp_path):
    model = tmp_path / "model"
    result = run("train", pictures, "-o", model, "--recipe", "bayes-gaus")
    assert_refused(result, model, "no recipe 'bayes-gaus'", "bayes-gauss")
    result = run("train", pictures, "-o", model, "--recipe", toml, "--set", "loss.margn=1")
    assert_refused(result, model, "unknown key 'loss.margn'", "did you mean 'margin'?")


def test_a_folder_that_cannot_be_written(run, toml, pictures, tmp_path):
    (tmp_path / "file").write_text("in the way")
    model = tmp_path / "file" / "model"
    result = run("train", pictures, "-o", model, "--recipe", toml)
    assert_refused(result, model, "cannot write", "writable")
    assert (tmp_path / "file").read_text() == "in the way"


def test_check_counts_and_names_what_is_rejected(monkeypatch, pictures, tmp_path, capsys):
    copy = shutil.copytree(pictures, tmp_path / "copy")
    (copy / "class03" / "1.png").write_bytes(b"<html>")
    for number in range(1, 5):
        (copy / "class05" / f"{number}.png").unlink()
    monkeypatch.setattr(sys, "argv", ["surefind", "check", str(copy)])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().out
    assert ended.value.code == 1
    assert "56 images, 55 usable" in told
    assert "class03/1.png" in told
    assert "class05" in told
