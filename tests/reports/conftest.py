"""What tests of reports share."""

from pathlib import Path

import pytest
from evaluations import make_evaluation

from surefind.reports.result import EvalResult, QueryTable


@pytest.fixture
def evaluation(tmp_path: Path) -> tuple[EvalResult, QueryTable]:
    """A small evaluation with pictures, two rankings and foreign queries."""
    return make_evaluation(tmp_path)
