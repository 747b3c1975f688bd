"""Which queries are worth looking at, checked against plain loops."""

import numpy as np
import pytest

from surefind.reports.figures.selection import (
    confident_but_wrong,
    least_sure,
    least_sure_of_all,
    right_pairs,
    surest,
)
from surefind.reports.queries import QueryTable


def by_hand(queries: QueryTable, signal: str, *, most: bool = False, wrong: bool = False):
    """Rows sorted by a loop over Python values."""
    rows = []
    for row in range(len(queries)):
        scored = not queries["foreign"][row] and queries["n_matches"][row] > 0
        if scored and not (wrong and queries["means.match_1"][row]):
            rows.append((float(queries[f"means.signal.{signal}"][row]), row))
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0] if most else pair[0])]


@pytest.mark.parametrize("count", [1, 6, 1000])
def test_selections_agree_with_a_loop(evaluation, count: int):
    _, queries = evaluation
    assert surest(queries, count=count).tolist() == by_hand(queries, "query_var")[:count]
    assert (
        least_sure(queries, count=count).tolist()
        == by_hand(queries, "query_var", most=True)[:count]
    )
    wrong = by_hand(queries, "query_var", wrong=True)[:count]
    assert confident_but_wrong(queries, count=count).tolist() == wrong


def test_another_signal_can_be_asked(evaluation):
    _, queries = evaluation
    rows = surest(queries, signal="ratio_1_2")
    assert rows.tolist() == by_hand(queries, "ratio_1_2")[:6]


def test_without_a_variance_the_nearest_distance_decides(without_variance):
    _, queries = without_variance
    assert surest(queries).tolist() == by_hand(queries, "nearest_distance")[:6]


def test_queries_without_a_match_and_foreign_ones_are_never_chosen(evaluation):
    _, queries = evaluation
    columns = dict(queries.columns)
    columns["n_matches"] = np.where(np.arange(len(queries)) % 2, columns["n_matches"], 0)
    rows = least_sure(QueryTable(columns), count=1000)
    assert len(rows) == 60
    assert (rows % 2 == 1).all()
    assert (rows < 120).all()


def test_pairs_have_a_right_top_hit_and_are_sorted_by_their_joint_variance(evaluation):
    _, queries = evaluation
    rows = [r for r in by_hand(queries, "pair_var") if queries["means.match_1"][r]]
    assert right_pairs(queries).tolist() == rows


def test_the_least_sure_of_all_may_be_foreign(evaluation):
    _, queries = evaluation
    doubt = queries["means.signal.pair_var"].tolist()
    rows = sorted(range(len(queries)), key=lambda row: -doubt[row])[:40]
    assert least_sure_of_all(queries, count=40).tolist() == rows
    foreign = queries["foreign"][rows]
    assert foreign.any() and not foreign.all()
