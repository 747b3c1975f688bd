"""Files and inline SVG."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from surefind.errors import InvalidFile
from surefind.reports.figures.saving import save, to_svg


def a_figure(slope: float = 1.0) -> Figure:
    figure = Figure(figsize=(3, 2), layout="constrained")
    axis = figure.subplots()
    axis.plot([0, 1], [0, slope], "o-", clip_on=True)
    axis.imshow([[0, 1], [1, 0]])
    axis.set_title("variance & τ")
    return figure


def ids(svg: str) -> list[str]:
    return [e.attrib["id"] for e in ElementTree.fromstring(svg).iter() if "id" in e.attrib]


def test_svg_is_one_well_formed_element_with_text_as_text():
    svg = to_svg(a_figure())
    assert svg.startswith("<svg ")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "variance &amp; τ" in svg
    assert "sans-serif" in svg


def test_svg_of_the_same_figure_is_the_same_text():
    assert to_svg(a_figure()) == to_svg(a_figure())
    assert "date" not in to_svg(a_figure())


def test_two_svgs_live_in_one_page():
    one, other = to_svg(a_figure()), to_svg(a_figure(slope=2))
    assert len(ids(one)) == len(set(ids(one)))
    assert not set(ids(one)) & set(ids(other))
    assert "<style" not in one


def test_every_reference_within_an_svg_leads_somewhere():
    svg = to_svg(a_figure())
    references = re.findall(r'(?:xlink:href="|url\()#([^")]+)', svg)
    assert references
    assert set(references) <= set(ids(svg))


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_a_file_is_what_its_ending_says_and_the_same_each_time(
    tmp_path: Path, ending: str, start: bytes
):
    for name in ("one", "two"):
        save(a_figure(), tmp_path / f"{name}.{ending}")
    content = (tmp_path / f"one.{ending}").read_bytes()
    assert content.startswith(start)
    assert content == (tmp_path / f"two.{ending}").read_bytes()


def test_another_ending_is_refused(tmp_path: Path):
    with pytest.raises(InvalidFile, match="name a .png, .svg or .pdf file"):
        save(a_figure(), tmp_path / "figure.bmp")


def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path: Path):
    with pytest.raises(InvalidFile, match="cannot write .*No such file"):
        save(a_figure(), tmp_path / "nowhere" / "figure.png")
