"""From an answer to the next: more like a hit, back again, other orders, fewer images."""

from pathlib import Path

import pytest
from pages import Visit, asked, await_answer, choose, items
from playwright.sync_api import Page, expect
from serving import Served

from surefind.serve.gallery import item_of


@pytest.fixture
def page(visit: Visit, service: Served, by_verdict: dict[str, Path]) -> Page:
    page = visit(service, expected="status of 400")
    choose(page, by_verdict["match"])
    return page


def neighbours(at: Served, item: str) -> list[str]:
    query = {"k": 12, "ranking": "mean"}
    answer = at.client.get(f"/v1/items/{item}/neighbours", params=query).json()
    return [hit["item"] for hit in answer["hits"]]


def test_more_like_a_hit_asks_its_neighbours_and_back_returns(page: Page, service: Served) -> None:
    before, verdict = items(page), page.inner_html("#verdict")
    page.click("#hits li:nth-child(3) button.more")
    await_answer(page)
    assert items(page) == neighbours(service, before[2])
    assert f"item={before[2]}" in page.url
    page.go_back()
    await_answer(page)
    assert items(page) == before
    assert page.inner_html("#verdict") == verdict
    page.go_forward()
    await_answer(page)
    assert items(page) == neighbours(service, before[2])
    page.go_back()
    page.go_back()
    expect(page.locator("body[data-state=ready]")).to_be_attached()
    assert items(page) == [] and page.is_visible("h1")


def test_an_address_of_neighbours_can_be_passed_on(visit: Visit, service: Served) -> None:
    item = item_of("class07/2.png")
    page = visit(service, f"/?item={item}")
    await_answer(page)
    assert items(page) == neighbours(service, item)


def test_another_ranking_asks_again_without_percentages_and_a_way_leads_back(
    page: Page, service: Served, by_verdict: dict[str, Path]
) -> None:
    page.check("#ranking input[value=expected]", force=True)
    await_answer(page)
    answer = asked(service, by_verdict["match"], ranking="expected")
    assert items(page) == [hit["item"] for hit in answer["hits"]]
    assert page.get_attribute("#verdict", "data-verdict") == "none"
    assert page.locator("[role=meter]").count() == 0
    assert page.is_hidden("#threshold") and "%" not in page.inner_text("#answer")
    page.click("#rank-back")
    await_answer(page)
    assert page.get_attribute("#verdict", "data-verdict") == "match"
    assert page.is_checked("#ranking input[value=mean]")


def test_a_filter_leaves_only_what_meets_it(
    page: Page, service: Served, by_verdict: dict[str, Path]
) -> None:
    conditions = ["label>=class05", "label<class07"]
    page.fill("#where", "; ".join(conditions))
    page.keyboard.press("Enter")
    await_answer(page)
    answer = asked(service, by_verdict["match"], where=conditions)
    assert items(page) == [hit["item"] for hit in answer["hits"]] != []
    page.fill("#where", "label=nowhere")
    page.keyboard.press("Enter")
    expect(page.locator("#verdict")).to_contain_text("Nothing found")
    assert items(page) == []


def test_a_refused_filter_is_told_beside_it_until_it_is_mended(page: Page, service: Served) -> None:
    page.fill("#where", "nonsense")
    page.keyboard.press("Enter")
    told = service.client.post("/v1/search?where=nonsense", content=b"x").json()["error"]
    expect(page.locator("#where-error")).to_contain_text(told["problem"])
    assert told["fix"] in page.inner_text("#where-error")
    assert page.get_attribute("#where", "aria-invalid") == "true"
    assert page.inner_text("#error") == ""
    page.fill("#where", "label=class05")
    page.select_option("#k", "6")
    expect(page.locator("#hits li")).to_have_count(6)
    assert page.inner_text("#where-error") == ""
