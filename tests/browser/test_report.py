"""The report in a browser: complete, within the screen, and without scripts."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pages import HOSTILE
from playwright.sync_api import Browser, Page

Open = Callable[..., Page]


@pytest.fixture
def show(browser: Browser, report: Path) -> Iterator[Open]:
    """Opens the report offline; console messages, errors and requests fail the test."""
    complaints: list[str] = []
    pages: list[Page] = []

    def open_page(*, width: int = 1280, scheme: str = "light") -> Page:
        page = browser.new_page(
            viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True
        )
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("requestfailed", lambda request: complaints.append(f"request: {request.url[:60]}"))
        page.goto(report.as_uri())
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (360, "dark"), (1280, "light")])
def test_the_report_fits_the_screen_and_follows_the_colour_scheme(
    show: Open, width: int, scheme: str
) -> None:
    page = show(width=width, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in ground[4:-1].split(","))
    assert (brightness > 384) == (scheme == "light")


def test_every_image_is_loaded_and_a_hostile_file_name_is_text(show: Open) -> None:
    page = show()
    sizes = page.evaluate("[...document.images].map(one => one.complete && one.naturalWidth)")
    assert len(sizes) > 24 and all(sizes)
    assert HOSTILE in page.inner_text("#gallery")
    assert page.locator("img[onerror]").count() == 0


@pytest.mark.slow
def test_an_injected_script_does_not_run(browser: Browser, report: Path, tmp_path: Path) -> None:
    spoilt = tmp_path / "spoilt.html"
    spoilt.write_text(
        report.read_text().replace("</main>", "<script>document.title = 'run'</script>")
    )
    page = browser.new_page(offline=True)
    page.goto(spoilt.as_uri())
    title = page.title()
    page.close()
    assert title.endswith("surefind evaluation")
