"""The verdict, from both numbers."""

import numpy as np
import pytest

from surefind.search.confidence.verdict import FOREIGN, MATCH, UNSURE, VERDICTS, verdicts


@pytest.mark.parametrize(
    ("confidence", "belongs", "wanted"),
    [
        (0.95, 0.50, MATCH),
        (0.80, 0.50, MATCH),  # at the threshold
        (0.79, 0.50, UNSURE),
        (0.00, 1.00, UNSURE),
        (0.95, 0.02, MATCH),
        (0.95, 0.01, FOREIGN),  # at the rate: foreign wins over match
        (0.10, 0.001, FOREIGN),
        (1.00, 0.0001, FOREIGN),
    ],
)
def test_the_table_of_verdicts(confidence, belongs, wanted):
    found = verdicts(np.array([confidence]), np.array([belongs]), threshold=0.8, foreign_rate=0.01)
    assert found == [wanted]


def test_without_a_promise_nothing_is_called_a_match():
    sure, belongs = np.array([1.0, 1.0, 0.3]), np.array([1.0, 0.001, 0.5])
    found = verdicts(sure, belongs, threshold=None, foreign_rate=0.01)
    assert found == [UNSURE, FOREIGN, UNSURE]


def test_with_a_rate_of_zero_nothing_is_called_foreign():
    sure, belongs = np.array([0.9, 0.1]), np.array([1 / 10_001, 1 / 10_001])
    assert verdicts(sure, belongs, threshold=0.5, foreign_rate=0.0) == [MATCH, UNSURE]


def test_one_word_for_each_query_and_no_others():
    random = np.random.default_rng(0)
    found = verdicts(random.random(500), random.random(500), threshold=0.5, foreign_rate=0.2)
    assert len(found) == 500
    assert set(found) == set(VERDICTS)
    assert verdicts(np.empty(0), np.empty(0), threshold=0.5, foreign_rate=0.2) == []
