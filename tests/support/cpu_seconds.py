"""CPU seconds per test: `pytest -p cpu_seconds ...` lists those of 2 or more, and the sum."""

import os
from collections import Counter
from collections.abc import Generator

import pytest

LIMIT = 2.0
_taken: Counter[str] = Counter()


def _used() -> float:
    return sum(os.times()[:4])  # of this process and of the children it has waited for


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = _used()
    item.user_properties.append(("cpu", before))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    report.user_properties = [("cpu", _used() - dict(item.user_properties)["cpu"])]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown" and report.user_properties:
        _taken[report.nodeid] = float(dict(report.user_properties)["cpu"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, seconds in _taken.most_common():
        if seconds >= LIMIT:
            terminalreporter.write_line(f"{seconds:7.1f} {name}")
    terminalreporter.write_line(f"{_taken.total():7.1f} CPU seconds in all")
