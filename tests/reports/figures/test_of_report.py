"""All drawings of a report at once."""

import dataclasses

import pytest

from surefind.errors import InvalidArgument, InvalidFile
from surefind.reports.figures import of_report
from surefind.reports.figures.of_report import DRAWINGS, draw_all, draw_selection, read_report


def only(monkeypatch, *names: str) -> None:
    monkeypatch.setattr(of_report, "DRAWINGS", {name: DRAWINGS[name] for name in names})


def test_every_drawing_becomes_a_file_of_its_name(evaluation, tmp_path, monkeypatch):
    only(monkeypatch, "risk-coverage", "surest")
    assert draw_all(*evaluation, tmp_path / "figures") == {}
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"risk-coverage.png", "surest.png"}


def test_what_was_not_measured_is_left_out_and_told(without_variance, tmp_path, monkeypatch):
    only(monkeypatch, "ood", "ladder", "calibration")
    result, queries = without_variance
    left_out = draw_all(dataclasses.replace(result, ladder=None), queries, tmp_path)
    assert left_out == {
        "ood": "the report has no foreign queries",
        "ladder": "the report has no corrupted queries",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["calibration.png"]


def test_an_unknown_selection_is_refused(evaluation):
    with pytest.raises(InvalidArgument, match="did you mean 'vaguest'"):
        draw_selection(*evaluation, which="vague")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_report_folder_is_read_back(evaluation, tmp_path, ending: str):
    result, queries = evaluation
    result.write(tmp_path / "results.json")
    queries.write(tmp_path / f"queries.{ending}")
    again, table = read_report(tmp_path)
    assert again == result
    assert list(table.columns) == list(queries.columns)


def test_a_folder_without_a_report_is_refused(tmp_path):
    with pytest.raises(InvalidFile, match="surefind evaluate"):
        read_report(tmp_path)
