"""A server with a token asks for it once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import Visit, choose
from playwright.sync_api import Page, expect
from serving import Served, served

from surefind.search.index import Index

TOKEN = "a-token-of-enough-letters"


@pytest.fixture(scope="module")
def closed(home: Path) -> Iterator[Served]:
    with served(Index.open(home / "index"), token=TOKEN) as shared:
        yield shared


@pytest.fixture
def page(visit: Visit, closed: Served, request: pytest.FixtureRequest) -> Page:
    """As one sees it who was never here."""
    return visit(closed, expected="status of 401|ERR_ABORTED", guest=request.node.name)


def test_a_stranger_sees_nothing_but_the_form(page: Page) -> None:
    expect(page.locator("#sign-in")).to_be_visible()
    assert page.is_hidden("#main")
    assert "index" not in page.inner_text("#foot-words") and page.inner_text("#which") == ""
    assert page.evaluate("document.activeElement.id") == "token"
    page.fill("#token", "a-token-of-other-letters")
    page.click("#sign-in-button")
    expect(page.locator("#sign-in-error")).to_have_text("This is not the token.")
    assert page.is_hidden("#main")


def test_the_right_token_opens_the_page(page: Page, by_verdict: dict[str, Path]) -> None:
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator("body[data-state=ready]")).to_be_attached()
    assert page.is_hidden("#sign-in")
    kept = page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]")
    assert kept == ["", 0, 0]  # scripts cannot read what was given for it
    page.reload()
    expect(page.locator("body[data-state=ready]")).to_be_attached()
    choose(page, by_verdict["match"])
    assert page.get_attribute("#verdict", "data-verdict") == "match"
