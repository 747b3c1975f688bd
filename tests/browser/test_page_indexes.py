"""Indexes of which less is known: never calibrated, without images, without an encoder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import Visit, await_answer, choose, items, meters
from playwright.sync_api import Page, expect
from serving import Served, served
from vague_vectors import vague_vectors

import surefind as sf
from surefind.encoders import Encoder
from surefind.search.index import Index


@pytest.fixture(scope="module")
def empty(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Index.create(tmp_path_factory.mktemp("empty") / "new", Encoder.load(model))) as at:
        yield at


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Of another model."""
    known = vague_vectors(classes=24)
    folder = tmp_path_factory.mktemp("vectors") / "index"
    targets = sf.CalibrationTargets(precision=0.8)
    upgrade = sf.calibrate(known.vectors, known.labels, targets=targets, learn_variance=False)
    upgrade.index(folder, known.vectors, metadata=[{"label": str(n)} for n in known.labels]).close()
    with served(Index.open(folder)) as at:
        yield at


def told(page: Page) -> str:
    """All words of all views, seen or not, and those that are only read aloud."""
    return page.evaluate(
        """() => document.body.textContent + [...document.querySelectorAll("*")].flatMap(
            one => ["aria-label", "aria-valuetext", "title", "alt"].map(
                name => one.getAttribute(name) ?? "")).join(" ")"""
    )


def test_before_a_calibration_there_is_no_percentage_but_the_way_to_one(
    visit: Visit, plain: Served, by_verdict: dict[str, Path]
) -> None:
    page = visit(plain)
    assert "%" not in told(page)
    command = "surefind calibrate index DATA"
    expect(page.locator("#lead").get_by_text(command)).to_be_visible()
    choose(page, by_verdict["match"])
    expect(page.locator("#uncertainty-words")).not_to_be_empty()
    assert len(items(page)) == 12
    assert "%" not in told(page)
    assert page.get_attribute("#verdict", "data-verdict") == "none"
    assert page.locator("[role=meter], #hits li.below").count() == 0
    assert page.is_hidden("#threshold")
    expect(page.locator("#verdict").get_by_text(command)).to_be_visible()
    page.click("#tab-evaluation")
    expect(page.locator("#evaluation").get_by_text(command)).to_be_visible()


def test_the_command_can_be_copied(visit: Visit, plain: Served) -> None:
    page = visit(plain, guest="who copies")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#lead .copy")
    expect(page.locator("#lead .copy")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == plain.client.get("/v1/info").json()["how_to_calibrate"]


def test_an_empty_index_says_how_to_fill_it(visit: Visit, empty: Served) -> None:
    page = visit(empty)
    assert "no images yet" in page.inner_text("h1")
    assert "surefind index MODEL PHOTOS -o new" in page.inner_text("#lead")
    assert page.is_hidden("#drop") and page.is_disabled("#file")
    page.click("#tab-map")
    expect(page.locator("#map-words")).not_to_be_empty()
    assert page.is_hidden("#map")


def test_an_index_of_vectors_is_asked_with_its_own_images_and_says_why(
    visit: Visit, vectors: Served
) -> None:
    page = visit(vectors)
    assert page.is_hidden("#drop") and page.is_disabled("#file")
    assert "POST /v1/search/vector" in page.inner_text("#lead")
    page.locator("[data-sample]").first.click()
    await_answer(page)
    assert len(items(page)) == len(meters(page)) == 12


def test_warnings_of_the_index_can_be_dismissed(visit: Visit, service: Served) -> None:
    page = visit(service, expected="ERR_ABORTED")
    page.route("**/v1/info", lambda to: to.fulfill(json=_warned(to.fetch().json())))
    page.reload()
    expect(page.locator("#warnings li")).to_contain_text("The gallery is small")
    page.click("#warnings .dismiss")
    expect(page.locator("#warnings li")).to_have_count(0)


def _warned(info: dict) -> dict:
    return info | {"warnings": ["the gallery is small"]}
