"""Every view on every screen: within its width, and to be read in light and dark."""

from pathlib import Path

import pytest
from page_looks import faint_texts, scrolls_sideways
from pages import Visit, choose
from playwright.sync_api import Page, expect
from serving import Served

WIDTHS = (360, 768, 1280)
SCHEMES = ("light", "dark")
UNBROKEN = "word" * 40

every_screen = pytest.mark.parametrize(
    ("width", "scheme"), [(width, scheme) for width in WIDTHS for scheme in SCHEMES]
)
two_screens = pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])


def check(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.evaluate("PrecisionGuarantee.all(document.getAnimations().map(one => one.finished))")
    assert not scrolls_sideways(page)
    assert faint_texts(page) == []


@every_screen
def test_the_search_fits_and_can_be_read(
    visit: Visit, service: Served, by_verdict: dict[str, Path], width: int, scheme: str
) -> None:
    page = visit(service, width=width, scheme=scheme)
    check(page)
    for verdict in ("match", "unsure", "no_match"):
        choose(page, by_verdict[verdict])
        expect(page.locator("#uncertainty-words")).not_to_be_empty()
        check(page)
    page.fill("#threshold", "1")
    check(page)


@every_screen
def test_the_map_and_the_evaluation_fit_and_can_be_read(
    visit: Visit, service: Served, width: int, scheme: str
) -> None:
    page = visit(service, "/#view-map", width=width, scheme=scheme)
    expect(page.locator("#map")).to_be_visible()
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    check(page)
    page.click("#tab-evaluation")
    check(page)


@two_screens
def test_an_uncalibrated_answer_fits_and_can_be_read(
    visit: Visit, plain: Served, by_verdict: dict[str, Path], width: int, scheme: str
) -> None:
    page = visit(plain, width=width, scheme=scheme)
    choose(page, by_verdict["match"])
    check(page)


@two_screens
def test_problems_and_long_names_fit_and_can_be_read(
    visit: Visit, service: Served, tmp_path: Path, width: int, scheme: str
) -> None:
    page = visit(service, width=width, scheme=scheme, expected="status of 422")
    broken = tmp_path / f"{UNBROKEN}.png"
    broken.write_bytes(b"no picture")
    page.set_input_files("#file", broken)
    expect(page.locator("#error")).not_to_be_empty()
    page.fill("#where", UNBROKEN)
    check(page)


@pytest.mark.parametrize("path", ["/", "/#view-map", "/#view-evaluation", "/docs", "/report/"])
def test_no_page_loads_anything_from_another_host(visit: Visit, service: Served, path: str) -> None:
    page = visit(service, path, expected="ERR_ABORTED")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload(wait_until="networkidle")
    assert asked
    local = (f"{service.url}/", f"blob:{service.url}/", "data:")
    assert [url for url in asked if not url.startswith(local)] == []
