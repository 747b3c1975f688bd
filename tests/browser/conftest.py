"""A real Chromium without a network, and servers of small indexes whose page it opens."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from calibrations import write_foreign_picture
from evaluations import make_evaluation
from pages import Complaints, Visit, asked, open_page
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from serving import Served, served

from surefind.encoders import Encoder
from surefind.reports.report import write_report
from surefind.search.index import Index

_QUIET = (  # a browser that does only what it is told
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)


expect.set_options(timeout=30_000)  # milliseconds, on a busy machine


@pytest.fixture(scope="package")  # tests elsewhere want event loops of their own
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        as_root = os.geteuid() == 0  # whom Chromium lets in only without its sandbox
        browser = playwright.chromium.launch(
            executable_path=program, args=_QUIET, chromium_sandbox=not as_root
        )
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def service(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Of the calibrated index, with samples and a report; takes small files only."""
    folder = tmp_path_factory.mktemp("report")
    write_report(folder, *make_evaluation(folder))
    index, samples = Index.open(home / "index"), home / "queries" / "class00"
    with served(index, samples=samples, report=folder, max_bytes=100_000) as shared:
        yield shared


@pytest.fixture(scope="package")
def by_verdict(
    service: Served, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A query for each verdict."""
    strange = write_foreign_picture(tmp_path_factory.mktemp("strange") / "strange.png")
    found: dict[str, Path] = {}
    for path in [strange, *sorted((home / "queries" / "class00").iterdir())]:
        found.setdefault(asked(service, path)["verdict"], path)
    return found


@pytest.fixture(scope="package")
def plain(model: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Of an index that was never calibrated."""
    folder = tmp_path_factory.mktemp("plain") / "index"
    index = Index.create(folder, Encoder.load(model), home / "photos")
    with served(index) as shared:
        yield shared


@pytest.fixture(scope="package")
def contexts(browser: Browser) -> dict[tuple[object, ...], BrowserContext]:
    """By their options: pages of one share what the browser has kept."""
    return {}


@pytest.fixture
def visit(browser: Browser, contexts: dict[tuple[object, ...], BrowserContext]) -> Iterator[Visit]:
    """Opens the page of a server; whatever the browser complains of fails the test."""
    complaints = Complaints()
    pages = []

    def opened(
        at: Served,
        path: str = "/",
        *,
        expected: str | None = None,
        width: int = 1280,
        height: int = 900,
        scheme: str = "light",
        motion: str = "no-preference",
        guest: str = "",
    ) -> Page:
        options = (width, height, scheme, motion, guest)
        if options not in contexts:
            contexts[options] = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                reduced_motion=motion,
            )
        pages.append(contexts[options].new_page())
        return open_page(pages[-1], at.url + path, complaints=complaints.but(expected))

    yield opened
    heard = [*complaints.heard]  # what closing cuts off is not complained of
    for page in pages:
        page.close()
    assert heard == []
