"""Ways to search, options, the threshold, refusals: the details of the search view."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import (
    Visit,
    await_answer,
    choose,
    drop,
    held,
    in_percent,
    items,
    neighbour_items,
    paste,
    search,
    shows_result,
)
from PIL import Image
from playwright.sync_api import Page, Route, expect
from servers import Served, served

from surefind.search.index import Index
from surefind.serve.gallery import item_of

pytestmark = pytest.mark.slow

PROBLEM, FIX = "the server is overloaded", "try again in a moment"


@pytest.fixture
def page(visit: Visit, service: Served, by_verdict: dict[str, Path]) -> Page:
    """With the result of a matching query."""
    page = visit(service, expected="status of 400")
    choose(page, by_verdict["match"])
    return page


# ways to search


@pytest.mark.parametrize("place", ["#drop", "#foot"])
def test_a_file_dropped_anywhere_is_searched(
    visit: Visit, service: Served, by_verdict: dict[str, Path], place: str
) -> None:
    page, path = visit(service), by_verdict["match"]
    drop(page, path.read_bytes(), name=path.name, on=place)
    await_answer(page)
    assert shows_result(page, search(service, path))


def test_a_drop_without_a_file_is_explained(visit: Visit, service: Served) -> None:
    page = visit(service)
    nothing = page.evaluate_handle("() => new DataTransfer()")
    page.dispatch_event("#drop", "drop", {"dataTransfer": nothing})
    expect(page.locator("#error")).to_contain_text("Only image files can be dropped.")


def test_a_pasted_picture_and_a_sample_are_searched(
    visit: Visit, service: Served, by_verdict: dict[str, Path], home: Path
) -> None:
    page, path = visit(service), by_verdict["unsure"]
    paste(page, path.read_bytes(), name="")
    await_answer(page)
    assert shows_result(page, search(service, path))
    assert page.inner_text("#asked-name") == "pasted picture"
    page = visit(service)
    page.click("[data-sample='1.png']")
    await_answer(page)
    assert shows_result(page, search(service, home / "queries" / "class00" / "1.png"))


def test_a_newer_search_replaces_an_older_one_and_cancel_stops_it(
    visit: Visit, service: Served, by_verdict: dict[str, Path]
) -> None:
    page = visit(service, expected="ERR_ABORTED")
    with held(page, "**/v1/search?*"):
        page.set_input_files("#file", by_verdict["no_match"])
        expect(page.locator("#progress")).to_be_visible()
        choose(page, by_verdict["match"])
    assert shows_result(page, search(service, by_verdict["match"]))
    expect(page.locator("#progress")).to_be_hidden()
    page = visit(service, expected="ERR_ABORTED")
    with held(page, "**/v1/search?*"):
        page.set_input_files("#file", by_verdict["match"])
        assert page.get_attribute("#answer", "aria-busy") == "true"
        page.click("#cancel")
    assert page.get_attribute("body", "data-state") == "ready"
    assert page.get_attribute("#answer", "aria-busy") == "false"


def test_more_like_a_hit_searches_its_neighbours_and_back_returns(page: Page, service: Served) -> None:
    before, verdict = items(page), page.inner_html("#verdict")
    page.click("#hits li:nth-child(3) button.more")
    await_answer(page)
    assert items(page) == neighbour_items(service, before[2])
    assert f"item={before[2]}" in page.url
    page.go_back()
    await_answer(page)
    assert items(page) == before
    assert page.inner_html("#verdict") == verdict
    page.go_forward()
    await_answer(page)
    assert items(page) == neighbour_items(service, before[2])
    page.go_back()
    page.go_back()
    expect(page.locator("body[data-state=ready]")).to_be_attached()
    assert items(page) == [] and page.is_visible("h1")


def test_a_link_to_an_item_shows_its_neighbours(visit: Visit, service: Served) -> None:
    item = item_of("class07/2.png")
    page = visit(service, f"/?item={item}")
    await_answer(page)
    assert items(page) == neighbour_items(service, item)


# options


def test_another_ranking_without_labels_has_no_percentages_and_a_button_leads_back(
    visit: Visit, label_free_service: Served, by_verdict: dict[str, Path]
) -> None:
    page, service = visit(label_free_service), label_free_service
    choose(page, by_verdict["match"])
    page.check("#ranking input[value=expected]", force=True)
    await_answer(page)
    answer = search(service, by_verdict["match"], ranking="expected")
    assert items(page) == [hit["item"] for hit in answer["hits"]]
    assert page.get_attribute("#verdict", "data-verdict") == "none"
    assert page.locator("[role=meter]").count() == 0
    assert page.is_hidden("#threshold") and "%" not in page.inner_text("#answer")
    page.click("#rank-back")
    await_answer(page)
    assert page.get_attribute("#verdict", "data-verdict") == "match"
    assert page.is_checked("#ranking input[value=confidence]")


@pytest.mark.parametrize("ranking", ["mean", "expected"])
def test_another_ranking_with_labels_has_its_order_and_the_same_answer(
    page: Page, service: Served, by_verdict: dict[str, Path], ranking: str
) -> None:
    offered = page.locator("#ranking label").all_inner_texts()
    assert offered == ["Confidence", "Mean distance", "Expected distance"]
    title = page.inner_text("#verdict h2")
    page.check(f"#ranking input[value={ranking}]", force=True)
    await_answer(page)
    answer = search(service, by_verdict["match"], ranking=ranking)
    assert shows_result(page, answer) and page.inner_text("#verdict h2") == title


def test_a_filter_with_labels_has_confidence_that_is_not_guaranteed(
    page: Page, service: Served, by_verdict: dict[str, Path]
) -> None:
    assert "not guaranteed" not in page.inner_text("#verdict")
    page.fill("#where", "label<class07")
    page.keyboard.press("Enter")
    expect(page.locator(".verdict-kind")).to_contain_text("not guaranteed")
    assert shows_result(page, search(service, by_verdict["match"], where="label<class07"))


def test_a_filter_without_labels_is_applied_and_without_confidence(
    visit: Visit, label_free_service: Served, by_verdict: dict[str, Path]
) -> None:
    page, service = visit(label_free_service), label_free_service
    choose(page, by_verdict["match"])
    conditions = ["label>=class05", "label<class07"]
    page.fill("#where", "; ".join(conditions))
    page.keyboard.press("Enter")
    reason = "Confidence is not available for filtered searches yet."
    expect(page.locator("#verdict")).to_contain_text(reason)
    answer = search(service, by_verdict["match"], where=conditions)
    assert items(page) == [hit["item"] for hit in answer["hits"]] != []
    page.fill("#where", "label=nowhere")
    page.keyboard.press("Enter")
    expect(page.locator("#verdict")).to_contain_text("Nothing found")
    assert items(page) == []


def test_a_refused_filter_is_explained_beside_it_until_corrected(page: Page, service: Served) -> None:
    page.fill("#where", "nonsense")
    page.keyboard.press("Enter")
    error = service.client.post("/v1/search?where=nonsense", content=b"x").json()["error"]
    expect(page.locator("#where-error")).to_contain_text(error["problem"])
    assert error["fix"] in page.inner_text("#where-error")
    assert page.get_attribute("#where", "aria-invalid") == "true"
    assert page.inner_text("#error") == ""
    page.fill("#where", "label=class05")
    page.select_option("#k", "6")
    expect(page.locator("#hits li")).to_have_count(6)
    assert page.inner_text("#where-error") == ""


# the threshold


@pytest.fixture
def calibration(service: Served) -> dict:
    return service.client.get("/v1/info").json()["calibration"]


def measured(calibration: dict, threshold: float) -> str:
    """Text for the nearest row of the curve."""
    row = min(calibration["curve"], key=lambda row: abs(row["threshold"] - threshold))
    if row["answered"] == 0:
        return "No calibration query is above this threshold."
    return (
        f"Precision {in_percent(row['precision'])}, coverage {in_percent(row['coverage'])} "
        f"({row['right']:.0f} of {row['answered']:.0f} calibration queries correct)."
    )


def below(page: Page) -> list[bool]:
    return page.eval_on_selector_all("#hits li", "all => all.map(one => one.classList.contains('below'))")


def test_the_threshold_starts_at_the_guaranteed_one(page: Page, calibration: dict) -> None:
    guaranteed = calibration["match_threshold"]
    assert float(page.input_value("#threshold")) == pytest.approx(guaranteed, abs=0.0005)
    assert page.inner_text("#threshold-words") == measured(calibration, guaranteed)
    assert page.is_disabled("#threshold-reset")
    text, before = page.inner_text("#threshold-guarantee"), below(page)
    assert calibration["guaranteed"].replace("`", "") in text
    assert f"Only the threshold {round(100 * guaranteed, 1):g} % has a guarantee" in text
    page.fill("#threshold", "1")
    assert below(page) != before
    page.click("#threshold-reset")
    assert below(page) == before


def test_the_threshold_shows_the_measured_curve_and_dims_hits_below(
    page: Page, service: Served, calibration: dict, by_verdict: dict[str, Path]
) -> None:
    for threshold in (0.5, 0.72, 0.9, 1.0):
        page.fill("#threshold", str(threshold))
        assert page.inner_text("#threshold-words") == measured(calibration, threshold)
    page.focus("#threshold")
    page.keyboard.press("ArrowLeft")
    assert float(page.input_value("#threshold")) == pytest.approx(0.999)
    confidences = [hit["confidence"] for hit in search(service, by_verdict["match"])["hits"]]
    page.fill("#threshold", "0.6")
    assert below(page) == [confidence < 0.6 for confidence in confidences]
    assert page.get_by_text("below threshold", exact=True).count() == sum(below(page))
    assert 0 < sum(below(page)) < len(confidences)
    clear, dim = (page.locator(f"#hits li{kind} img").first for kind in (":not(.below)", ".below"))
    filters = [one.evaluate("one => getComputedStyle(one).filter") for one in (clear, dim)]
    assert filters[0] != filters[1]


@pytest.mark.parametrize("labels", [True, False])
def test_the_verdict_follows_the_threshold(
    visit: Visit, service: Served, label_free_service: Served, by_verdict: dict, labels: bool
) -> None:
    page = visit(service if labels else label_free_service)
    choose(page, by_verdict["match"])
    verdict, text = page.locator("#verdict"), page.inner_text("#verdict")
    expect(verdict).to_have_attribute("data-verdict", "match")
    page.fill("#threshold", "1")
    expect(verdict).to_have_attribute("data-verdict", "unsure")
    expect(verdict).to_contain_text("the threshold of 100 %")
    page.fill("#threshold", "0.51")
    expect(verdict).to_have_attribute("data-verdict", "match")
    expect(verdict).to_contain_text("the threshold of 51 %")
    expect(verdict).to_contain_text(re.compile("not guaranteed", re.IGNORECASE))
    page.click("#threshold-reset")
    assert page.inner_text("#verdict") == text


def test_a_threshold_is_kept_for_the_next_query_and_hidden_where_nothing_matches(
    visit: Visit, service: Served, by_verdict: dict[str, Path]
) -> None:
    page = visit(service)
    choose(page, by_verdict["unsure"])
    page.fill("#threshold", "0.7")
    choose(page, by_verdict["no_match"])
    assert page.is_hidden("#threshold") and page.locator("[role=meter], .below").count() == 0
    choose(page, by_verdict["match"])
    assert page.input_value("#threshold") == "0.7"


def test_a_copy_of_an_indexed_image_is_a_match_of_100_percent(visit: Visit, service: Served, home: Path) -> None:
    page = visit(service)
    choose(page, home / "photos" / "class04" / "0.png")
    page.fill("#threshold", "1")
    assert page.inner_text("#verdict h2") == "class04, 100 %"
    expect(page.locator("#verdict")).to_contain_text("An identical image is in the index")
    assert page.locator("#hits .percent").first.inner_text() == "100 %"


# refusals


def busy(*, times: int) -> Callable[[Route], None]:
    """A server that is overloaded at first."""
    left = [times]

    def answer(route: Route) -> None:
        left[0] -= 1
        if left[0] < 0:
            route.continue_()
            return
        body = {"error": {"problem": PROBLEM, "fix": FIX}}
        route.fulfill(status=503, headers={"Retry-After": "1"}, json=body)

    return answer


def expect_problem(page: Page, problem: str) -> None:
    expect(page.locator("#error")).to_contain_text(problem[1:])  # the page capitalises it
    assert page.get_attribute("body", "data-state") == "error"


def test_a_file_that_is_too_large_is_not_sent(visit: Visit, service: Served, tmp_path: Path) -> None:
    large = tmp_path / "large.png"
    large.write_bytes(bytes(150_000))
    page = visit(service)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.set_input_files("#file", large)
    expect_problem(page, "large.png is 146 KB; the limit is 98 KB")
    assert "POST" not in sent


def test_a_busy_server_is_retried_then_reported_then_retried_by_hand(
    visit: Visit, service: Served, by_verdict: dict[str, Path]
) -> None:
    page = visit(service, expected="503")
    page.route("**/v1/search?*", busy(times=5))
    page.set_input_files("#file", by_verdict["match"])
    expect(page.locator("#progress-words")).to_contain_text("busy: retrying in 1 s (1 of 3)")
    expect_problem(page, PROBLEM)
    page.click("#retry")
    await_answer(page)
    assert page.get_attribute("#verdict", "data-verdict") == "match"


def test_an_unreachable_server_is_reported_and_found_again(
    visit: Visit, home: Path, by_verdict: dict[str, Path]
) -> None:
    with served(Index.open(home / "index")) as short:
        page = visit(short, expected="ERR_CONNECTION|ERR_EMPTY")
        choose(page, by_verdict["unsure"])
    page.set_input_files("#file", by_verdict["match"])
    expect_problem(page, "The server cannot be reached")
    with served(Index.open(home / "index"), port=int(short.url.rsplit(":", 1)[1])):
        page.click("#retry")
        await_answer(page)
        assert page.get_attribute("#verdict", "data-verdict") == "match"


def test_a_picture_that_cannot_be_drawn_is_replaced_by_text(
    visit: Visit, service: Served, by_verdict: dict[str, Path], tmp_path: Path
) -> None:
    page = visit(service, expected="404")
    first = search(service, by_verdict["match"])["hits"][0]
    missing = {"error": {"problem": "its file is gone", "fix": "index it again"}}
    page.route(f"**{first['links']['thumbnail']}", lambda to: to.fulfill(status=404, json=missing))
    Image.open(by_verdict["match"]).save(tmp_path / "scanned.tiff")
    choose(page, tmp_path / "scanned.tiff")
    expect(page.locator("#asked-picture .no-picture")).to_have_text("scanned.tiff")
    place = page.locator("#hits li").first.locator(".no-picture")
    expect(place).to_contain_text("its file is gone")


def test_warnings_of_the_index_can_be_dismissed(visit: Visit, service: Served) -> None:
    page = visit(service, expected="ERR_ABORTED")
    warned = lambda to: to.fulfill(json=to.fetch().json() | {"warnings": ["the gallery is small"]})
    page.route("**/v1/info", warned)
    page.reload()
    expect(page.locator("#warnings li")).to_contain_text("The gallery is small")
    page.click("#warnings .dismiss")
    expect(page.locator("#warnings li")).to_have_count(0)
