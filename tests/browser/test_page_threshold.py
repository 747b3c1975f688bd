"""The slider says what was measured at each confidence, and marks the hits below."""

from pathlib import Path

import pytest
from pages import Visit, asked, choose, counted
from playwright.sync_api import Page, expect
from serving import Served


@pytest.fixture
def page(visit: Visit, service: Served, by_verdict: dict[str, Path]) -> Page:
    """With an answer whose hits are of every confidence."""
    page = visit(service)
    choose(page, by_verdict["match"])
    return page


@pytest.fixture
def calibration(service: Served) -> dict:
    return service.client.get("/v1/info").json()["calibration"]


def measured(calibration: dict, threshold: float) -> str:
    """In words, from the row of the curve that is nearest."""
    row = min(calibration["curve"], key=lambda row: abs(row["threshold"] - threshold))
    if row["answered"] == 0:
        return "No calibration query was that sure: nothing would be answered."
    return (
        f"Of the answers kept, {counted(row['precision'])} were right; "
        f"{counted(row['coverage'])} of queries are answered "
        f"({row['right']:.0f} of {row['answered']:.0f} calibration queries right)."
    )


def below(page: Page) -> list[bool]:
    return page.eval_on_selector_all(
        "#hits li", "all => all.map(one => one.classList.contains('below'))"
    )


def test_it_starts_where_the_guarantee_holds(page: Page, calibration: dict) -> None:
    assert float(page.input_value("#threshold")) == pytest.approx(
        calibration["threshold"], abs=0.0005
    )
    assert page.inner_text("#threshold-words") == measured(calibration, calibration["threshold"])
    assert page.is_disabled("#threshold-reset")
    words, before = page.inner_text("#threshold-guarantee"), below(page)
    assert calibration["guaranteed"] in words
    assert f"Only {100 * calibration['threshold']:.1f} % carries a guarantee" in words
    page.fill("#threshold", "1")
    assert below(page) != before
    page.click("#threshold-reset")
    assert below(page) == before


def test_its_words_are_those_of_the_curve(page: Page, calibration: dict) -> None:
    for threshold in (0.0, 0.42, 0.9, 1.0):
        page.fill("#threshold", str(threshold))
        assert page.inner_text("#threshold-words") == measured(calibration, threshold)
    page.focus("#threshold")
    page.keyboard.press("End")
    assert page.inner_text("#threshold-words") == measured(calibration, 1.0)
    page.keyboard.press("ArrowLeft")
    assert float(page.input_value("#threshold")) == pytest.approx(0.999)
    page.keyboard.press("Home")
    assert page.inner_text("#threshold-words") == measured(calibration, 0.0)


def test_hits_below_it_are_dimmed_and_say_so(
    page: Page, service: Served, by_verdict: dict[str, Path]
) -> None:
    sure = [hit["confidence"] for hit in asked(service, by_verdict["match"])["hits"]]
    between = round((min(sure) + max(sure)) / 2, 3)
    page.fill("#threshold", str(between))
    assert below(page) == [confidence < between for confidence in sure]
    assert page.get_by_text("below threshold", exact=True).count() == sum(below(page))
    assert 0 < sum(below(page)) < len(sure)
    clear, dim = (page.locator(f"#hits li{kind} img").first for kind in (":not(.below)", ".below"))
    looks = [one.evaluate("one => getComputedStyle(one).filter") for one in (clear, dim)]
    assert looks[0] != looks[1]


def test_it_tells_what_would_become_of_this_query(
    visit: Visit, service: Served, by_verdict: dict[str, Path]
) -> None:
    page = visit(service)
    choose(page, by_verdict["unsure"])
    expect(page.locator("#threshold-fate")).to_contain_text("would be left open")
    page.fill("#threshold", "0")
    expect(page.locator("#threshold-fate")).to_contain_text("would be answered")
    page.fill("#threshold", "0.7")
    choose(page, by_verdict["no_match"])
    expect(page.locator("#threshold-fate")).to_contain_text("no match at any threshold")
    assert page.input_value("#threshold") == "0.7"  # as it was put
    assert all(below(page))
