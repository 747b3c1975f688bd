"""The report as a browser shows it: whole, within the screen, and without running anything."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from evaluations import make_evaluation
from PIL import Image
from playwright.sync_api import Browser, Page

from surefind.reports.report import write_report

HOSTILE = "<img src=x onerror=alert(1)>.png"
UNBROKEN = "word_" * 40
SCHEMES = ("light", "dark")

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With names that attack and names that are too long."""
    folder = tmp_path_factory.mktemp("report")
    result, queries = make_evaluation(folder, queries=72)
    Image.new("RGB", (30, 20)).save(folder / "data" / HOSTILE)
    for rank in range(1, 11):
        queries.columns[f"means.hit_{rank}"][:] = ""
        queries.columns[f"means.hit_{rank}"] = queries[f"means.hit_{rank}"].astype("<U99")
    queries["means.hit_1"][:] = HOSTILE
    queries["means.hit_2"][:] = UNBROKEN[:99]
    about = dataclasses.replace(result.about, model=UNBROKEN, command=f"surefind {UNBROKEN}")
    return write_report(folder, dataclasses.replace(result, about=about), queries)


@pytest.fixture
def show(browser: Browser, report: Path) -> Iterator[Open]:
    """Opens the report offline; whatever the browser complains of fails the test."""
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


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_never_scrolls_sideways_and_its_ground_follows_the_reader(
    show: Open, width: int, scheme: str
) -> None:
    page = show(width=width, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in ground[4:-1].split(","))
    assert (brightness > 384) == (scheme == "light")


def test_every_picture_is_there_and_a_hostile_file_name_is_text(show: Open) -> None:
    page = show()
    sizes = page.evaluate("[...document.images].map(one => one.complete && one.naturalWidth)")
    assert len(sizes) > 24 and all(sizes)
    assert HOSTILE in page.inner_text("#gallery")
    assert page.locator("img[onerror]").count() == 0


def test_a_script_that_got_in_would_not_run(browser: Browser, report: Path, tmp_path: Path) -> None:
    spoilt = tmp_path / "spoilt.html"
    spoilt.write_text(
        report.read_text().replace("</main>", "<script>document.title = 'run'</script>")
    )
    page = browser.new_page(offline=True)
    page.goto(spoilt.as_uri())
    title = page.title()
    page.close()
    assert title.endswith("surefind evaluation")
