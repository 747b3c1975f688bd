"""Figures of reports, by their names."""

import dataclasses

import pytest

from surefind.reports.figures.style import NothingToDraw
from surefind.reports.report import write_figures
from surefind.reports.result import Report


def files(folder) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.*")}


def test_every_drawing_becomes_a_file_of_its_name(evaluation, tmp_path):
    written = write_figures(
        ["risk-coverage", "surest"], [Report("A", *evaluation)], tmp_path / "figures"
    )
    assert written.left_out == {}
    assert files(tmp_path / "figures") == {"risk-coverage.png", "surest.png"}


def test_what_was_not_measured_is_left_out_and_told(without_variance, tmp_path):
    result, queries = without_variance
    report = Report("A", dataclasses.replace(result, ladder=None), queries)
    written = write_figures(["ood", "ladder", "calibration"], [report], tmp_path, lenient=True)
    assert written.left_out == {
        "ood": "the report has no foreign queries",
        "ladder": "the report has no corrupted queries",
    }
    assert files(tmp_path) == {"calibration.png"}
    with pytest.raises(NothingToDraw):
        write_figures(["ood"], [report], tmp_path)


def test_of_several_reports_comparisons_are_one_file_and_the_others_one_each(evaluation, tmp_path):
    reports = [Report("R50/A", *evaluation), Report("B", *evaluation)]
    written = write_figures(["ood", "risk-coverage"], reports, tmp_path, ending="svg")
    expected = {"ood.svg", "R50/A/risk-coverage.svg", "B/risk-coverage.svg"}
    assert files(tmp_path) == expected
    assert {str(path.relative_to(tmp_path)) for path in written.files} == expected
