"""The map in detail; every view by keyboard, on every screen, in light and dark."""

from pathlib import Path

import pytest
from accessibility import contrast_problems, scrolls_sideways, tab_stops, unnamed
from pages import Visit, await_answer, choose, held, items
from playwright.sync_api import Page, expect
from servers import Served

pytestmark = pytest.mark.slow

WAITING = {"ready": False, "sentence": "projecting 144 images"}
UNBROKEN = "word" * 40
MOVING = """document.getAnimations().filter(
    one => one.playState === "running" && one.effect.getComputedTiming().duration > 0).length"""
screens = pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (768, "light"), (1280, "light"), (1280, "dark")])


# the map


@pytest.fixture
def map_page(visit: Visit, service: Served) -> Page:
    page = visit(service, "/#view-map")
    expect(page.locator("#map")).to_be_visible()
    return page


def drawing(page: Page) -> str:
    return page.locator("#map").evaluate("one => one.toDataURL()")


def first_point(page: Page) -> dict[str, float]:
    """A drawn pixel of the canvas."""
    return page.locator("#map").evaluate(
        """one => {
            const {data} = one.getContext("2d").getImageData(0, 0, one.width, one.height);
            const at = data.findIndex((part, n) => n % 4 === 3 && part > 200) >> 2;
            return {x: at % one.width, y: Math.floor(at / one.width) + 2};
        }"""
    )


def test_a_map_that_is_not_ready_is_polled(visit: Visit, service: Served) -> None:
    page = visit(service)
    page.route("**/v1/map", lambda to: to.fulfill(status=202, headers={"Retry-After": "1"}, json=WAITING), times=1)
    page.click("#tab-map")
    expect(page.locator("#map-words")).to_contain_text("Projecting 144 images")
    assert page.is_hidden("#map")
    expect(page.locator("#map")).to_be_visible()
    assert page.inner_text("#map-words") == service.client.get("/v1/map").json()["sentence"]


def test_the_map_can_be_zoomed_coloured_and_highlighted(map_page: Page) -> None:
    before = drawing(map_page)
    map_page.click("#map-in")
    assert drawing(map_page) != before
    map_page.click("#map-whole")
    assert drawing(map_page) == before
    map_page.select_option("#map-class", "class04")
    assert drawing(map_page) != before
    map_page.select_option("#map-class", "")
    assert drawing(map_page) == before
    map_page.check("#map-colour input[value=variance]", force=True)
    assert drawing(map_page) != before
    assert "uncertain" in map_page.inner_text("#map-legend")


def test_a_point_shows_its_image_a_click_searches_and_hits_are_ringed(map_page: Page) -> None:
    before, place = drawing(map_page), first_point(map_page)
    map_page.hover("#map", position=place)
    expect(map_page.locator("#map-card img")).to_be_visible()
    map_page.click("#map", position=place)
    await_answer(map_page)
    assert len(items(map_page)) == 12
    map_page.click("#tab-map")
    map_page.mouse.move(0, 0)
    assert drawing(map_page) != before


# commands


def test_a_command_can_be_copied(visit: Visit, plain: Served) -> None:
    page = visit(plain, guest="who copies")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#lead .copy")
    expect(page.locator("#lead .copy")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == plain.client.get("/v1/info").json()["how_to_calibrate"]


# keyboard and screen reader


@pytest.fixture
def page(visit: Visit, service: Served, by_verdict: dict[str, Path]) -> Page:
    page = visit(service)
    choose(page, by_verdict["match"])
    return page


def test_tab_reaches_every_control_with_a_visible_focus(page: Page) -> None:
    stops = tab_stops(page)
    assert [stop["what"] for stop in stops if not stop["seen"]] == []
    wanted = {"home", "tab-search", "file", "where", "k", "threshold"}
    assert wanted <= {stop["what"] for stop in stops}
    assert sum("more" in stop["what"] for stop in stops) == 12


@pytest.mark.parametrize("tab", ["map", "evaluation"])
def test_tab_goes_through_the_other_views(visit: Visit, service: Served, tab: str) -> None:
    page = visit(service, f"/#view-{tab}")
    expect(page.locator("#map" if tab == "map" else "#report")).to_be_visible()
    if tab == "evaluation":  # a frame that loads while Tab is pressed has stops of its own
        expect(page.frame_locator("#report iframe").locator("h1").first).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"  # from the top
    stops = tab_stops(page)
    assert [stop["what"] for stop in stops if not stop["seen"]] == []
    assert ("map" in {stop["what"] for stop in stops}) == (tab == "map")


def test_everything_focusable_has_an_accessible_name(page: Page) -> None:
    assert unnamed(page) == []
    meter = page.get_by_role("meter")
    assert meter.count() == 12
    percent = meter.first.locator(".percent").inner_text()
    assert meter.first.get_attribute("aria-valuetext") == percent
    for tab in ("map", "evaluation"):
        page.click(f"#tab-{tab}")
        assert unnamed(page) == []


def test_arrow_keys_move_between_tabs(page: Page) -> None:
    page.focus("#tab-search")
    visited = []
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "Home", "End"):
        page.keyboard.press(key)
        visited.append(page.evaluate("document.activeElement.id"))
        chosen = page.locator("[role=tab][aria-selected=true]")
        assert chosen.get_attribute("id") == visited[-1]
        assert page.is_visible("#" + chosen.get_attribute("aria-controls"))
    names = [name.removeprefix("tab-") for name in visited]
    assert names == ["map", "evaluation", "search", "evaluation", "search", "evaluation"]


def test_after_more_like_this_the_focus_is_on_the_result(page: Page) -> None:
    button = page.locator("#hits button.more").nth(1)
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#asked-facts")).to_contain_text("indexed image")
    assert page.evaluate("document.activeElement.id") == "panel-search"


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_waiting_is_animated_only_without_reduced_motion(
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


# layout


def check(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.evaluate("Promise.all(document.getAnimations().map(one => one.finished))")
    assert not scrolls_sideways(page)
    assert contrast_problems(page) == []


@screens
def test_every_view_fits_the_screen_and_has_enough_contrast(
    visit: Visit, service: Served, by_verdict: dict[str, Path], width: int, scheme: str
) -> None:
    page = visit(service, width=width, scheme=scheme)
    check(page)
    for verdict in ("no_match", "unsure", "match"):
        choose(page, by_verdict[verdict])
        expect(page.locator("#uncertainty-words")).not_to_be_empty()
        check(page)
    page.fill("#threshold", "1")
    check(page)
    page.click("#tab-map")
    expect(page.locator("#map")).to_be_visible()
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    check(page)
    page.click("#tab-evaluation")
    check(page)


@screens
def test_problems_long_names_and_uncalibrated_results_fit_too(
    visit: Visit, plain: Served, by_verdict: dict[str, Path], tmp_path: Path, width, scheme
) -> None:
    page = visit(plain, width=width, scheme=scheme, expected="status of 422")
    choose(page, by_verdict["match"])
    check(page)
    broken = tmp_path / f"{UNBROKEN}.png"
    broken.write_bytes(b"no picture")
    page.set_input_files("#file", broken)
    expect(page.locator("#error")).not_to_be_empty()
    page.fill("#where", UNBROKEN)
    check(page)


@pytest.mark.parametrize("path", ["/docs", "/report/"])
def test_other_pages_load_nothing_from_another_host(visit: Visit, service: Served, path: str) -> None:
    assert visit(service, path).inner_text("h1")  # `visit` fails on cross-origin requests
