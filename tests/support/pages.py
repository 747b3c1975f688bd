"""Open the page in a browser, search with it, and read what it shows."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Page, Route, expect
from servers import Served

HITS = 12  # the page's default
HOSTILE = "<img src=x onerror=alert(1)>.png"  # a file name

Visit = Callable[..., Page]


@dataclass
class Complaints:
    """Console messages, errors and failed requests, except those a test expects."""

    heard: list[str] = field(default_factory=list)
    expected: str | None = None

    def but(self, expected: str | None) -> "Complaints":
        return Complaints(self.heard, expected)

    def hear(self, words: str) -> None:
        if self.expected is None or not re.search(self.expected, words):
            self.heard.append(words)


def open_page(page: Page, address: str, *, complaints: Complaints) -> Page:
    """Load the page; console output, dialogs and failed or cross-origin requests are complaints."""
    origin = "/".join(address.split("/")[:3])
    page.on("console", lambda message: complaints.hear(f"console: {message.text}"))
    page.on("pageerror", lambda error: complaints.hear(f"error: {error}"))
    page.on("dialog", lambda dialog: _dismiss(dialog, complaints))
    page.on("requestfailed", lambda failed: complaints.hear(f"{failed.failure}: {failed.url}"))
    page.on("request", lambda request: _check_origin(request.url, origin, complaints))
    page.goto(address)
    expect(page.locator("body:not([data-state=loading])")).to_be_attached()
    return page


def _dismiss(dialog: Any, complaints: Complaints) -> None:
    complaints.hear(f"dialog: {dialog.message}")
    dialog.dismiss()


def _check_origin(asked: str, origin: str, complaints: Complaints) -> None:
    if not asked.startswith((f"{origin}/", f"blob:{origin}/", "data:")):
        complaints.hear(f"cross-origin request: {asked}")


def choose(page: Page, path: Path) -> None:
    """Upload a file with the file button and wait for the result."""
    page.set_input_files("#file", path)
    await_answer(page)


def await_answer(page: Page) -> None:
    expect(page.locator("body[data-state=answered]")).to_be_attached()


@contextmanager
def held(page: Page, pattern: str) -> Iterator[None]:
    """Hold back the next matching request, and abort it at the end."""
    waiting: list[Route] = []
    page.route(pattern, lambda route: waiting.append(route), times=1)
    try:
        yield
    finally:
        for route in waiting:
            with suppress(Error):  # the page may have cancelled it
                route.abort()


def drop(page: Page, content: bytes, *, name: str, on: str = "#drop") -> None:
    """Drag and drop a file onto the page."""
    held = page.evaluate_handle(_HOLD, [list(content), name])
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event(on, event, {"dataTransfer": held})


def paste(page: Page, content: bytes, *, name: str) -> None:
    held = page.evaluate_handle(_HOLD, [list(content), name])
    page.evaluate(
        "held => document.body.dispatchEvent(new ClipboardEvent('paste', {clipboardData: held, bubbles: true}))", held
    )


def search(at: Served, path: Path, **query: Any) -> dict[str, Any]:
    """The server's response to a file, without the page."""
    response = at.client.post("/v1/search", content=path.read_bytes(), params={"k": HITS, **query})
    answer: dict[str, Any] = response.raise_for_status().json()
    return answer


def neighbour_items(at: Served, item: str) -> list[str]:
    answer = at.client.get(f"/v1/items/{item}/neighbours", params={"k": HITS}).json()
    return [hit["item"] for hit in answer["hits"]]


def shows_result(page: Page, answer: dict[str, Any]) -> bool:
    """Whether verdict, hits and confidences on the page are those of the response.

    If nothing in the catalogue matches, confidences are not shown.
    """
    shown = page.locator("#hits .percent").all_inner_texts()
    is_known = answer["verdict"] != "no_match"
    confidences = [hit["confidence"] for hit in answer["hits"] if is_known]
    return (
        page.get_attribute("#verdict", "data-verdict") == answer["verdict"]
        and items(page) == [hit["item"] for hit in answer["hits"]]
        and meters(page) == [round(100 * confidence, 2) for confidence in confidences]
        and shown == [in_percent(confidence) for confidence in confidences]
    )


def meters(page: Page) -> list[float]:
    """The confidence of every hit in per cent, as screen readers get it."""
    values = page.eval_on_selector_all(
        "#hits .confidence[role=meter]", "all => all.map(one => Number(one.getAttribute('aria-valuenow')))"
    )
    return list(values)


def items(page: Page) -> list[str]:
    return list(page.eval_on_selector_all("#hits li", "all => all.map(one => one.dataset.item)"))


def in_percent(confidence: float) -> str:
    """A probability as the page shows it: without decimals, 0 and 100 % only if it is that."""
    whole = round(100 * confidence)
    if 0 < whole < 100 or confidence in (0, 1):
        return f"{whole} %"
    return "< 1 %" if whole < 1 else "> 99 %"


_HOLD = """([content, name]) => {
    const held = new DataTransfer();
    held.items.add(new File([new Uint8Array(content)], name, {type: "image/png"}));
    return held;
}"""
