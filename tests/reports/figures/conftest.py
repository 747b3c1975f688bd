"""An evaluation to draw; larger than that of the other reports, so that curves mean something."""

import pytest
from evaluations import make_evaluation

from surefind.reports.result import EvalResult, QueryTable


@pytest.fixture(scope="session")
def evaluation(tmp_path_factory) -> tuple[EvalResult, QueryTable]:
    return make_evaluation(tmp_path_factory.mktemp("evaluation"), queries=120, foreign=30)


@pytest.fixture(scope="session")
def without_variance(tmp_path_factory) -> tuple[EvalResult, QueryTable]:
    folder = tmp_path_factory.mktemp("without_variance")
    return make_evaluation(folder, queries=120, foreign=0, learned=False)
