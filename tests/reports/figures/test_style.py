"""Figures as files."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from surefind.errors import InvalidFile
from surefind.reports.figures.style import save


def a_figure(slope: float = 1.0) -> Figure:
    figure = Figure(figsize=(3, 2), layout="constrained")
    axis = figure.subplots()
    axis.plot([0, 1], [0, slope], "o-", clip_on=True)
    axis.imshow([[0, 1], [1, 0]])
    axis.set_title("variance & τ")
    return figure


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_file_is_what_its_ending_says_and_the_same_each_time(tmp_path: Path, ending: str, start: bytes):
    for name in ("one", "two"):
        save(a_figure(), tmp_path / f"{name}.{ending}")
    content = (tmp_path / f"one.{ending}").read_bytes()
    assert content.startswith(start)
    assert content == (tmp_path / f"two.{ending}").read_bytes()
    assert ending != "svg" or "variance &amp; τ" in content.decode()  # text stays text


def test_another_ending_is_refused(tmp_path: Path):
    with pytest.raises(InvalidFile, match="name a .png, .svg or .pdf file"):
        save(a_figure(), tmp_path / "figure.bmp")
