"""Errors of `surefind train` and `surefind check`: one clear message, no model written."""

import shutil
import sys

import pytest

from surefind.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line; the exit code and what was written to stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["surefind", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return call


def test_what_cannot_be_trained_on_is_one_error_and_no_model(run, recipe, pictures, tmp_path):
    toml = tmp_path / "recipe.toml"
    toml.write_text(recipe().to_toml())
    for number, folder in enumerate(sorted(pictures.iterdir())[:3], start=99):
        shutil.copytree(folder, tmp_path / "cars" / f"{number:03d}.Name")
    for data, options, *words in (
        (f"cars196:{tmp_path / 'cars'}", ["--recipe", toml], "holds test classes only"),
        (pictures, ["--recipe", "bayes-gaus"], "no recipe 'bayes-gaus'", "bayes-gauss"),
        (pictures, ["-o", toml / "model", "--recipe", toml], "cannot write", "writable"),
    ):
        code, _, told = run("train", data, "-o", tmp_path / "model", *options)
        assert code == 1
        assert told.startswith("error: ")
        assert "Traceback" not in told
        assert all(word in told for word in words)
    assert not (tmp_path / "model" / "config.json").exists()


def test_check_counts_and_names_what_is_rejected(run, pictures, tmp_path):
    copy = shutil.copytree(pictures, tmp_path / "copy")
    (copy / "class03" / "1.png").write_bytes(b"<html>")
    for number in range(1, 5):
        (copy / "class05" / f"{number}.png").unlink()
    code, told, _ = run("check", copy)
    assert code == 1
    assert all(word in told for word in ("56 images, 55 usable", "class03/1.png", "class05"))
