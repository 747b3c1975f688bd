"""The report beside the page: read as it is, or an error that says how to make one."""

import pytest

from surefind.errors import InvalidFile
from surefind.serve.gallery import report as module
from surefind.serve.gallery.report import Report


def test_a_report_is_read_as_it_is(tmp_path):
    (tmp_path / "report.html").write_bytes(b"<!doctype html>\xc3\xa9")
    assert Report.read(tmp_path).html == b"<!doctype html>\xc3\xa9"


@pytest.mark.parametrize("folder", ["", "none"])
def test_a_missing_report_says_how_to_make_one(tmp_path, folder):
    with pytest.raises(InvalidFile, match="report.html is missing") as caught:
        Report.read(tmp_path / folder)
    assert f"surefind evaluate MODEL DATA -o {tmp_path / folder}" in caught.value.fix


def test_a_report_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(InvalidFile, match="cannot be read: Is a directory"):
        Report.read(tmp_path)


def test_a_file_instead_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "report.html").write_bytes(b"<html>")
    with pytest.raises(InvalidFile, match="cannot be read"):
        Report.read(tmp_path / "report.html")


def test_a_report_of_the_largest_size_is_read_and_a_larger_one_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    (tmp_path / "report.html").write_bytes(b"x" * 10)
    assert len(Report.read(tmp_path).html) == 10
    (tmp_path / "report.html").write_bytes(b"x" * 11)
    with pytest.raises(InvalidFile, match="too large: more than 10 bytes"):
        Report.read(tmp_path)
