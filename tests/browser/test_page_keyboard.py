"""The page without a mouse, with a screen reader, and without motion."""

from pathlib import Path

import pytest
from page_looks import tab_stops, unnamed
from pages import Visit, choose, held
from playwright.sync_api import Page, expect
from serving import Served

MOVING = """document.getAnimations().filter(
    one => one.playState === "running" && one.effect.getComputedTiming().duration > 0).length"""


@pytest.fixture
def page(visit: Visit, service: Served, by_verdict: dict[str, Path]) -> Page:
    page = visit(service)
    choose(page, by_verdict["match"])
    return page


def test_tab_leads_through_every_control_and_shows_where_it_is(page: Page) -> None:
    stops = tab_stops(page)
    assert [stop["what"] for stop in stops if not stop["seen"]] == []
    wanted = {"home", "tab-search", "file", "where", "k", "threshold"}
    assert wanted <= {stop["what"] for stop in stops}
    assert sum("more" in stop["what"] for stop in stops) == 12


@pytest.mark.parametrize("tab", ["map", "evaluation"])
def test_tab_leads_through_the_other_views(visit: Visit, service: Served, tab: str) -> None:
    page = visit(service, f"/#view-{tab}")
    expect(page.locator("#map" if tab == "map" else "#report")).to_be_visible()
    if tab == "evaluation":  # a frame that loads while Tab is pressed has stops of its own
        expect(page.frame_locator("#report iframe").locator("h1").first).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"  # from the top
    stops = tab_stops(page)
    assert [stop["what"] for stop in stops if not stop["seen"]] == []
    assert ("map" in {stop["what"] for stop in stops}) == (tab == "map")


def test_all_that_can_have_the_focus_has_a_name(page: Page) -> None:
    assert unnamed(page) == []
    for tab in ("map", "evaluation"):
        page.click(f"#tab-{tab}")
        assert unnamed(page) == []


def test_tabs_are_walked_with_the_arrow_keys(page: Page) -> None:
    page.focus("#tab-search")
    walked = []
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "Home", "End"):
        page.keyboard.press(key)
        walked.append(page.evaluate("document.activeElement.id"))
        chosen = page.locator("[role=tab][aria-selected=true]")
        assert chosen.get_attribute("id") == walked[-1]
        assert page.is_visible("#" + chosen.get_attribute("aria-controls"))
    assert walked == [
        "tab-map", "tab-evaluation", "tab-search", "tab-evaluation", "tab-search", "tab-evaluation"
    ]  # fmt: skip


def test_a_screen_reader_finds_its_way(page: Page) -> None:
    roles = {"#verdict": "status", "#error": "alert", "#where-error": "alert"}
    for place, role in roles.items():
        assert page.get_attribute(place, "role") == role
    assert page.get_attribute("#verdict", "aria-live") == "polite"
    assert page.get_by_role("tablist").count() == 1
    assert page.get_by_role("tab").count() == 3
    assert page.get_by_role("main").count() == 1
    assert page.locator("[role=tab][tabindex='0'], [role=tab]:not([tabindex])").count() == 1
    meter = page.get_by_role("meter")
    assert meter.count() == 12
    assert (
        meter.first.get_attribute("aria-valuetext") == meter.first.locator(".percent").inner_text()
    )
    assert meter.first.get_attribute("aria-valuemax") == "100"


def test_after_more_like_this_the_keyboard_goes_on_from_the_answer(page: Page) -> None:
    button = page.locator("#hits button.more").nth(1)
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#asked-facts")).to_contain_text("of the gallery")
    assert page.evaluate("document.activeElement.id") == "panel-search"


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_waiting_moves_only_where_motion_is_wanted(
    visit: Visit, service: Served, by_verdict: dict[str, Path], motion: str
) -> None:
    page = visit(service, motion=motion, expected="ERR_")
    with held(page, "**/v1/search?*"):
        page.set_input_files("#file", by_verdict["match"])
        expect(page.locator("#progress")).to_be_visible()
        assert (page.evaluate(MOVING) > 0) == (motion == "no-preference")
    with held(page, "**/v1/map"):
        page.click("#tab-map")
        expect(page.locator("#map-words[aria-busy=true]")).to_be_attached()
        assert (page.evaluate(MOVING) > 0) == (motion == "no-preference")
