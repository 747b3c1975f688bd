"""Results and query tables are read back as written."""

from pathlib import Path

import numpy as np
import pytest

from surefind.errors import InvalidFile
from surefind.reports.result import EvalResult, QueryTable


def test_a_result_is_read_back_as_written(evaluation, tmp_path: Path):
    result, _ = evaluation
    result.write(tmp_path / "results.json")
    assert EvalResult.read(tmp_path / "results.json") == result


def test_a_file_that_is_no_result_is_refused(tmp_path: Path):
    (tmp_path / "results.json").write_text('{"about": 3}')
    with pytest.raises(InvalidFile, match="results.json"):
        EvalResult.read(tmp_path / "results.json")


def test_the_query_table_is_read_back_as_written(evaluation, tmp_path: Path):
    _, table = evaluation
    table.write(tmp_path / "queries.csv")
    again = QueryTable.read(tmp_path / "queries.csv")
    assert list(again.columns) == list(table.columns)
    for name, column in table.columns.items():
        np.testing.assert_array_equal(again[name], column)
