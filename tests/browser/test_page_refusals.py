"""What the page says when a question cannot be answered, and how it goes on."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pages import Visit, asked, await_answer, choose, items
from PIL import Image
from playwright.sync_api import Page, Route, expect
from serving import Served, served

from surefind.search.index import Index

PROBLEM, FIX = "the server has much to do", "ask again in a moment"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Larger than the server takes."""
    path = tmp_path / "large.png"
    path.write_bytes(bytes(150_000))
    return path


@pytest.fixture
def broken(tmp_path: Path, by_verdict: dict[str, Path]) -> Path:
    path = tmp_path / "broken.png"
    path.write_bytes(by_verdict["match"].read_bytes()[:200])
    return path


def busy(*, times: int) -> Callable[[Route], None]:
    """A server that has no time at first."""
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
    expect(page.locator("#error")).to_contain_text(problem[1:])  # as a sentence it is capitalised
    assert page.get_attribute("body", "data-state") == "error"


def test_a_file_that_is_too_large_is_not_sent(visit: Visit, service: Served, large: Path) -> None:
    page = visit(service)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.set_input_files("#file", large)
    expect_problem(page, "large.png has 146 KB; this server takes up to 98 KB")
    assert "POST" not in sent


def test_a_broken_file_is_told_with_what_to_do_and_the_next_is_answered(
    visit: Visit, service: Served, broken: Path, by_verdict: dict[str, Path]
) -> None:
    page = visit(service, expected="422")
    choose(page, by_verdict["match"])
    page.set_input_files("#file", broken)
    told = service.client.post("/v1/search", content=broken.read_bytes())
    assert told.status_code == 422
    expect_problem(page, told.json()["error"]["problem"])
    assert told.json()["error"]["fix"][1:] in page.inner_text("#error")
    assert items(page) == [] and page.inner_text("#verdict") == ""  # no old hits beside it
    choose(page, by_verdict["match"])
    assert page.inner_text("#error") == ""
    assert page.get_attribute("#verdict", "data-verdict") == "match"


def test_a_busy_server_is_asked_again_by_itself_told_and_asked_again(
    visit: Visit, service: Served, by_verdict: dict[str, Path]
) -> None:
    page = visit(service, expected="503")
    page.route("**/v1/search?*", busy(times=5))
    page.set_input_files("#file", by_verdict["match"])
    expect(page.locator("#progress-words")).to_contain_text("busy: asking again in 1 s (1 of 3)")
    expect_problem(page, PROBLEM)
    page.click("#retry")
    await_answer(page)
    assert page.get_attribute("#verdict", "data-verdict") == "match"


def test_a_server_that_is_gone_is_told_and_found_again(
    visit: Visit, home: Path, by_verdict: dict[str, Path]
) -> None:
    with served(Index.open(home / "index")) as short:
        page = visit(short, expected="ERR_CONNECTION|ERR_EMPTY|uncertainty")
        choose(page, by_verdict["unsure"])
    page.set_input_files("#file", by_verdict["match"])
    expect_problem(page, "The server cannot be reached")
    with served(Index.open(home / "index"), port=int(short.url.rsplit(":", 1)[1])):
        page.click("#retry")
        await_answer(page)
        assert page.get_attribute("#verdict", "data-verdict") == "match"


def test_a_hit_without_its_picture_says_why(
    visit: Visit, service: Served, by_verdict: dict[str, Path]
) -> None:
    page = visit(service, expected="404")
    first = asked(service, by_verdict["match"])["hits"][0]
    missing = {"error": {"problem": "its file is not there any more", "fix": "index it again"}}
    page.route(f"**{first['links']['thumbnail']}", lambda to: to.fulfill(status=404, json=missing))
    choose(page, by_verdict["match"])
    place = page.locator("#hits li").first.locator(".no-picture")
    expect(place).to_contain_text("its file is not there any more")


def test_a_file_that_browsers_cannot_draw_is_shown_by_its_name(
    visit: Visit, service: Served, by_verdict: dict[str, Path], tmp_path: Path
) -> None:
    Image.open(by_verdict["match"]).save(tmp_path / "scanned.tiff")
    page = visit(service)
    choose(page, tmp_path / "scanned.tiff")
    expect(page.locator("#asked-picture .no-picture")).to_have_text("scanned.tiff")
    assert page.get_attribute("#verdict", "data-verdict") == "match"
