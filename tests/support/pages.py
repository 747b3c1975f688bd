"""The page of a server as a browser has it: opened, asked, read."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Page, Route, expect
from serving import Served

HITS = 12  # that the page asks for unless told otherwise

Visit = Callable[..., Page]


@dataclass
class Complaints:
    """What the browser says that nobody should hear, but for what a test provokes."""

    heard: list[str] = field(default_factory=list)
    expected: str | None = None

    def but(self, expected: str | None) -> "Complaints":
        return Complaints(self.heard, expected)

    def hear(self, words: str) -> None:
        if self.expected is None or not re.search(self.expected, words):
            self.heard.append(words)


def open_page(page: Page, address: str, *, complaints: Complaints) -> Page:
    """Until it has loaded; console, dialogs, failed and foreign requests are complaints."""
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
        complaints.hear(f"foreign request: {asked}")


def choose(page: Page, path: Path) -> None:
    """By the file button, and until it is answered."""
    page.set_input_files("#file", path)
    await_answer(page)


def await_answer(page: Page) -> None:
    expect(page.locator("body[data-state=answered]")).to_be_attached()


@contextmanager
def held(page: Page, pattern: str) -> Iterator[None]:
    """The next such request gets no answer for a while, and then none at all."""
    waiting: list[Route] = []
    page.route(pattern, lambda route: waiting.append(route), times=1)
    try:
        yield
    finally:
        for route in waiting:
            with suppress(Error):  # the page may have called it off
                route.abort()


def drop(page: Page, content: bytes, *, name: str, on: str = "#drop") -> None:
    """As a hand that lets a file go over the page."""
    held = page.evaluate_handle(_HOLD, [list(content), name])
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event(on, event, {"dataTransfer": held})


def paste(page: Page, content: bytes, *, name: str) -> None:
    held = page.evaluate_handle(_HOLD, [list(content), name])
    page.evaluate(
        "held => document.body.dispatchEvent("
        "new ClipboardEvent('paste', {clipboardData: held, bubbles: true}))",
        held,
    )


def asked(at: Served, path: Path, **query: Any) -> dict[str, Any]:
    """What the server says of a file, without the page."""
    response = at.client.post(
        "/v1/search", content=path.read_bytes(), params={"k": HITS, "ranking": "mean", **query}
    )
    answer: dict[str, Any] = response.raise_for_status().json()
    return answer


def meters(page: Page) -> list[float]:
    """The confidence of every hit, in percent, as it is read aloud."""
    values = page.eval_on_selector_all(
        "#hits .confidence[role=meter]",
        "all => all.map(one => Number(one.getAttribute('aria-valuenow')))",
    )
    return list(values)


def items(page: Page) -> list[str]:
    return list(page.eval_on_selector_all("#hits li", "all => all.map(one => one.dataset.item)"))


def in_percent(confidence: float) -> str:
    """As people read it: never as if it were certain."""
    if not 0.001 <= confidence <= 0.999:
        return "< 0.1 %" if confidence < 0.5 else "> 99.9 %"
    digits = 1 if confidence < 0.01 or confidence > 0.99 else 0
    return f"{100 * confidence:.{digits}f} %"


def counted(share: float) -> str:
    """A share that was counted may be all or none."""
    return f"{100 * share:.0f} %" if share in (0, 1) else in_percent(share)


_HOLD = """([content, name]) => {
    const held = new DataTransfer();
    held.items.add(new File([new Uint8Array(content)], name, {type: "image/png"}));
    return held;
}"""
