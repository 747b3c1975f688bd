"""The map: waited for, drawn, walked with hand and keys."""

import pytest
from pages import Visit, await_answer, items
from playwright.sync_api import Page, expect
from serving import Served

from surefind.serve.gallery import item_of

WAITING = {"ready": False, "sentence": "projecting 144 images"}


@pytest.fixture
def page(visit: Visit, service: Served) -> Page:
    page = visit(service, "/#view-map")
    expect(page.locator("#map")).to_be_visible()
    return page


def drawing(page: Page) -> str:
    return page.locator("#map").evaluate("one => one.toDataURL()")


def ink(page: Page) -> float:
    """The share of the canvas that is not ground."""
    return page.locator("#map").evaluate(
        """one => {
            const {data} = one.getContext("2d").getImageData(0, 0, one.width, one.height);
            return data.filter((part, n) => n % 4 === 3 && part > 0).length / (data.length / 4);
        }"""
    )


def first_point(page: Page) -> dict[str, float]:
    """Somewhere on a point, in pixels of the canvas; the screen's are as large."""
    return page.locator("#map").evaluate(
        """one => {
            const {data} = one.getContext("2d").getImageData(0, 0, one.width, one.height);
            const at = data.findIndex((part, n) => n % 4 === 3 && part > 200) >> 2;
            return {x: at % one.width, y: Math.floor(at / one.width) + 2};
        }"""
    )


def test_a_map_that_is_not_made_yet_is_waited_for(visit: Visit, service: Served) -> None:
    page = visit(service)
    page.route(
        "**/v1/map",
        lambda to: to.fulfill(status=202, headers={"Retry-After": "1"}, json=WAITING),
        times=1,
    )
    page.click("#tab-map")
    expect(page.locator("#map-words")).to_contain_text("Projecting 144 images")
    assert page.is_hidden("#map")
    expect(page.locator("#map")).to_be_visible()
    assert 0.001 < ink(page) < 0.9
    assert page.inner_text("#map-words") == service.client.get("/v1/map").json()["sentence"]


def test_it_can_be_zoomed_coloured_and_a_class_set_off(page: Page) -> None:
    before = drawing(page)
    page.click("#map-in")
    assert drawing(page) != before
    page.click("#map-whole")
    assert drawing(page) == before
    page.select_option("#map-class", "class04")
    assert drawing(page) != before
    page.select_option("#map-class", "")
    assert drawing(page) == before
    page.check("#map-colour input[value=variance]", force=True)
    assert drawing(page) != before
    assert "less sure" in page.inner_text("#map-legend")


def test_keys_walk_from_image_to_image_and_enter_asks_what_is_like_it(
    page: Page, service: Served
) -> None:
    page.focus("#map")
    told = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        told.append(page.inner_text("#map-point"))
    assert len(set(told)) > 1 and all("class" in words for words in told)
    assert page.is_visible("#map-card")
    image = page.inner_text("#map-point").split(": ")[1].split(",")[0]
    page.keyboard.press("Enter")
    await_answer(page)
    asked = service.client.get(
        f"/v1/items/{item_of(image)}/neighbours", params={"k": 12, "ranking": "mean"}
    )
    assert page.get_attribute("#tab-search", "aria-selected") == "true"
    assert items(page) == [hit["item"] for hit in asked.json()["hits"]]


def test_a_pointed_at_image_is_shown_and_a_click_opens_it(page: Page) -> None:
    place = first_point(page)
    page.hover("#map", position=place)
    expect(page.locator("#map-card img")).to_be_visible()
    page.click("#map", position=place)
    await_answer(page)
    assert len(items(page)) == 12


def test_hits_of_the_answer_are_ringed(page: Page) -> None:
    before = drawing(page)
    page.click("#tab-search")
    page.locator("[data-sample]").first.click()
    await_answer(page)
    page.click("#tab-map")
    page.mouse.move(0, 0)
    assert drawing(page) != before
