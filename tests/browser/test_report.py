"""The report in a browser: complete, within the screen, and without scripts."""

from pathlib import Path

import pytest
from accessibility import scrolls_sideways
from pages import HOSTILE, Visit


def test_every_image_is_loaded_and_a_hostile_file_name_is_text(visit: Visit, report: Path) -> None:
    page = visit(report.as_uri())
    sizes = page.evaluate("[...document.images].map(one => one.complete && one.naturalWidth)")
    assert len(sizes) > 24 and all(sizes)
    assert HOSTILE in page.inner_text("#gallery")
    assert page.locator("img[onerror]").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (360, "dark"), (1280, "light")])
def test_the_report_fits_the_screen_and_follows_the_colour_scheme(
    visit: Visit, report: Path, width: int, scheme: str
) -> None:
    page = visit(report.as_uri(), width=width, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert not scrolls_sideways(page)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in ground[4:-1].split(","))
    assert (brightness > 384) == (scheme == "light")


@pytest.mark.slow
def test_an_injected_script_does_not_run(visit: Visit, report: Path, tmp_path: Path) -> None:
    spoilt = tmp_path / "spoilt.html"
    script = "<script>document.title = 'run'</script>"
    spoilt.write_text(report.read_text().replace("</main>", script))
    page = visit(spoilt.as_uri(), expected="Content Security Policy")
    assert page.title().endswith("surefind evaluation")
