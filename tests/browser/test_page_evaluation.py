"""The view that says how good the confidence is, with the report or the way to one."""

from pathlib import Path
from shutil import copytree

from pages import Visit
from playwright.sync_api import expect
from serving import Served, served

from surefind.datasets import read_catalog
from surefind.search.index import Index


def test_the_quality_is_told_with_what_it_was_measured_on(visit: Visit, service: Served) -> None:
    page = visit(service, "/#view-evaluation")
    made = service.client.get("/v1/info").json()["calibration"]
    quality, words = made["quality"], page.inner_text("#evaluation")
    for part in (made["created"][:10], made["guaranteed"], made["shown"], made["no_match"]):
        assert part in words
    assert "288 labelled queries of 24 classes" in words
    plot = page.locator("#evaluation svg[role=img]").first
    assert plot.locator("circle").count() == len(made["reliability"])
    assert plot.get_attribute("aria-label").startswith("Reliability diagram")
    for name in (
        "auroc", "ece", "floor", "brier", "aurc", "baseline_auroc", "baseline_ece", "ratio_auroc",
    ):  # fmt: skip
        assert f"{quality[name]:.3f}" in words


def test_copies_that_were_left_out_are_told(visit: Visit, home: Path, tmp_path: Path) -> None:
    index = Index.open(copytree(home / "index", tmp_path / "index"))
    catalog = read_catalog(home / "photos")
    again = [f"again/{name}" for name in catalog.ids]
    index.add(catalog, ids=again, duplicates="keep")
    index.calibrate(learn_variance=False)
    with served(index) as service:
        made = service.client.get("/v1/info").json()["calibration"]
        words = visit(service, "/#view-evaluation").inner_text("#evaluation")
    assert made["copies"] == 144
    assert "Left out: 144 images that are copies of a query" in made["left_out"]
    assert made["left_out"] in words


def test_the_report_is_shown_in_its_frame(visit: Visit, service: Served) -> None:
    page = visit(service, "/#view-evaluation")
    frame = page.frame_locator("#report iframe")
    expect(frame.locator("h1")).to_be_visible()
    assert page.get_attribute("#report iframe", "sandbox") == ""


def test_without_a_report_the_way_to_one_is_told(visit: Visit, plain: Served) -> None:
    page = visit(plain, "/#view-evaluation")
    words = page.inner_text("#report")
    assert "surefind evaluate MODEL DATA -o REPORT" in words
    assert "surefind serve index --report REPORT" in words
    assert page.locator("iframe").count() == 0
