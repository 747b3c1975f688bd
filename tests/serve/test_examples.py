"""The lines of the documentation, as a reader would run them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from serving import Served

DOCUMENT = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
WRITTEN = "http://127.0.0.1:8000"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, flags=re.DOTALL)


@pytest.fixture
def in_its_folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the name that the document uses, where it is run."""
    shutil.copy(next((home / "queries").rglob("*.png")), tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("block", blocks("bash"))
def test_curl_is_answered(block: str, service: Served, in_its_folder: None):
    script = block.replace(WRITTEN, service.url).replace("curl ", "curl -fsS ")
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_client_of_a_few_lines_is_answered(
    service: Served, in_its_folder: None, capsys: pytest.CaptureFixture[str]
):
    (block,) = blocks("python")
    exec(compile(block.replace(WRITTEN, service.url), "serving.md", "exec"), {})
    said = capsys.readouterr().out
    assert re.match(r"(match|unsure|foreign) 0\.\d+ ", said)
    assert "images are like" in said
