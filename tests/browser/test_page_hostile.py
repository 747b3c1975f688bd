"""Names with markup and scripts are shown as text; none of it runs."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pages import HOSTILE, Visit, await_answer, drop
from PIL import Image
from playwright.sync_api import Page, expect
from servers import Served, served

from surefind.encoders import Encoder
from surefind.search.index import Index

LABEL = "<svg onload=alert(2)>"
NOTE = "</title><script>alert(3)</script>"
INDEX = "<b onclick=alert(4)>index"


@pytest.fixture(scope="module")
def hostile(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Server of an index whose every name is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    place = folder / "photos" / LABEL
    place.mkdir(parents=True)
    for number in range(3):
        name = HOSTILE if number == 0 else f"{number}{HOSTILE}"
        Image.new("RGB", (24, 24), (80 * number, 40, 90)).save(place / name)
    index = Index.create(folder / INDEX, Encoder.load(model), folder / "photos")
    more = folder / "more.png"
    Image.new("RGB", (24, 24), (10, 200, 90)).save(more)
    index.add([more], metadata=[{"label": NOTE, "note": NOTE}])
    with served(index, pictures=(folder,)) as shared:
        yield shared


def is_unharmed(page: Page) -> bool:
    """No element made by an attack; dialogs fail the test anyway."""
    made = "img[onerror], svg[onload], [onclick], #main script, img[src=x]"
    return page.locator(made).count() == 0 and page.title() != "" and HOSTILE not in page.content()


@pytest.fixture
def page(visit: Visit, hostile: Served, by_verdict: dict[str, Path]) -> Page:
    """With the result of a file of such a name."""
    page = visit(hostile, expected="status of 40[04]")
    drop(page, by_verdict["match"].read_bytes(), name=HOSTILE)
    await_answer(page)
    return page


def test_names_ids_and_labels_are_text(page: Page) -> None:
    assert page.inner_text("#asked-name") == HOSTILE
    assert {LABEL, NOTE} <= set(page.locator(".hit-label").all_inner_texts())
    assert f"{LABEL}/{HOSTILE}" in page.eval_on_selector_all(".hit-id", "all => all.map(one => one.textContent)")
    assert INDEX in page.inner_text("#which") and INDEX in page.inner_text("#foot-words")
    assert is_unharmed(page)
    page.locator("#hits li", has_text=LABEL).first.locator("button.more").click()
    await_answer(page)
    assert page.title().startswith(LABEL)
    assert is_unharmed(page)


@pytest.mark.slow
def test_the_map_and_a_refused_filter_show_them_as_text(page: Page) -> None:
    page.click("#tab-map")
    expect(page.locator("#map")).to_be_visible()
    assert LABEL in page.inner_text("#map-legend")
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#map-point")).not_to_be_empty()
    assert is_unharmed(page)
    page.click("#tab-search")
    page.fill("#where", f"{HOSTILE}~{NOTE}")
    page.keyboard.press("Enter")
    expect(page.locator("#where-error")).not_to_be_empty()
    assert is_unharmed(page)


@pytest.mark.slow
def test_a_hostile_url_does_nothing(visit: Visit, hostile: Served) -> None:
    page = visit(hostile, f"/?item={quote(HOSTILE)}", expected="status of 40[04]")
    expect(page.locator("#error")).not_to_be_empty()
    assert is_unharmed(page)


@pytest.mark.slow
def test_an_injected_script_does_not_run(visit: Visit, hostile: Served) -> None:
    page = visit(hostile, expected="Content Security Policy|x:$")
    page.evaluate(
        """() => {
            const spoilt = document.createElement("script");
            spoilt.textContent = "document.title = 'run'";
            document.body.append(spoilt);
            document.body.insertAdjacentHTML("beforeend", "<img src='x:' onerror=alert(1)>");
        }"""
    )
    page.wait_for_timeout(200)
    assert page.title() != "run"
