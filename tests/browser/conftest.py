"""A real Chromium without a network, for tests of what people see."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

_QUIET = (  # a browser that does only what it is told
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
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
