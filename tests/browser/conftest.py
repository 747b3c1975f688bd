"""A Chromium without a network and servers of small indexes, each started once."""

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from calibrations import write_foreign_picture
from evaluations import make_evaluation
from pages import HOSTILE, Complaints, Visit, open_page, search
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from servers import Served, make_vector_index, served

from surefind.encoders import Encoder
from surefind.reports.report import write_report
from surefind.search.index import Index

_QUIET = (  # no background activity
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)


UNBROKEN = "word_" * 40

expect.set_options(timeout=30_000)  # milliseconds, on a busy machine


@pytest.fixture(scope="package")  # playwright's event loop must end before other tests
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        as_root = os.geteuid() == 0  # Chromium's sandbox does not run as root
        browser = playwright.chromium.launch(executable_path=program, args=_QUIET, chromium_sandbox=not as_root)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with hostile and very long names."""
    folder = tmp_path_factory.mktemp("report")
    result, queries = make_evaluation(folder, queries=72)
    Image.new("RGB", (30, 20)).save(folder / "data" / HOSTILE)
    for rank in range(1, 11):
        queries.columns[f"means.hit_{rank}"] = queries[f"means.hit_{rank}"].astype("<U99")
        queries.columns[f"means.hit_{rank}"][:] = ""
    queries["means.hit_1"][:] = HOSTILE
    queries["means.hit_2"][:] = UNBROKEN[:99]
    about = dataclasses.replace(result.about, model=UNBROKEN, command=f"surefind {UNBROKEN}")
    return write_report(folder, dataclasses.replace(result, about=about), queries)


@pytest.fixture(scope="package")
def service(home: Path, report: Path) -> Iterator[Served]:
    """Server of the calibrated index, with samples, a report and a small upload limit."""
    index, samples = Index.open(home / "index"), home / "queries" / "class00"
    with served(index, samples=samples, report=report.parent, max_bytes=100_000) as shared:
        yield shared


@pytest.fixture(scope="package")
def label_free_service(label_free: Path, home: Path) -> Iterator[Served]:
    """Server of an index that is calibrated without labels."""
    with served(Index.open(label_free), pictures=(home / "photos",)) as shared:
        yield shared


@pytest.fixture(scope="package")
def by_verdict(
    service: Served, label_free_service: Served, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A query image for each verdict, the same with labels and without."""
    strange = write_foreign_picture(tmp_path_factory.mktemp("strange") / "strange.png")
    found: dict[str, Path] = {}
    for path in [strange, *sorted((home / "queries" / "class00").iterdir())]:
        verdicts = {search(at, path)["verdict"] for at in (service, label_free_service)}
        if len(verdicts) == 1:
            found.setdefault(verdicts.pop(), path)
    return found


@pytest.fixture(scope="package")
def plain(model: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Server of an uncalibrated index."""
    folder = tmp_path_factory.mktemp("plain") / "index"
    index = Index.create(folder, Encoder.load(model), home / "photos", calibrate=False)
    with served(index) as shared:
        yield shared


@pytest.fixture(scope="package")
def empty(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Index.create(tmp_path_factory.mktemp("empty") / "new", Encoder.load(model))) as at:
        yield at


@pytest.fixture(scope="package")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Server of an index of another model's vectors."""
    with served(Index.open(make_vector_index(tmp_path_factory.mktemp("vectors")))) as at:
        yield at


@pytest.fixture(scope="package")
def token() -> str:
    return "a-token-of-enough-letters"


@pytest.fixture(scope="package")
def closed(home: Path, token: str) -> Iterator[Served]:
    """Server that requires a token."""
    with served(Index.open(home / "index"), token=token) as shared:
        yield shared


@pytest.fixture(scope="package")
def contexts(browser: Browser) -> dict[tuple[object, ...], BrowserContext]:
    """Browser contexts by their options, shared between tests."""
    return {}


@pytest.fixture
def visit(browser: Browser, contexts: dict[tuple[object, ...], BrowserContext]) -> Iterator[Visit]:
    """Opens the page of a server; unexpected console messages, errors or requests fail the test."""
    complaints = Complaints()
    pages = []

    def opened(
        at: Served | str,
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
                viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion=motion
            )
        pages.append(contexts[options].new_page())
        url = at if isinstance(at, str) else at.url + path
        return open_page(pages[-1], url, complaints=complaints.but(expected))

    yield opened
    heard = [*complaints.heard]  # before closing, which aborts requests
    for page in pages:
        page.close()
    assert heard == []
