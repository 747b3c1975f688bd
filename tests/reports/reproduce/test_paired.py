"""Rows compared query by query."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evaluations import make_evaluation

from surefind.reports.reproduce.paired import against
from surefind.reports.reproduce.plan import Plan


@pytest.fixture(params=["six labels", "no labels"])
def tables(request, plan: Plan, tmp_path: Path) -> Plan:
    """Two rows with two seeds each; in the second row ten more queries are right."""
    _, queries = make_evaluation(tmp_path / "made-up")
    if request.param == "no labels":
        queries.columns["label"] = np.full(len(queries), "")
    plan = replace(plan, seeds=2)
    for row, better in ((plan.rows[0], 0), (plan.rows[1], 10)):
        right = queries["means.match_1"].copy()
        right[np.flatnonzero(~right)[:better]] = True
        table = type(queries)(queries.columns | {"means.match_1": right})
        for seed in range(2):
            folder = plan.evaluation(row, seed)
            folder.mkdir(parents=True)
            table.write(folder / "queries.csv")
    return plan


def test_a_better_row_has_a_difference_above_zero(tables: Plan):
    found = against(tables, tables.rows[1], tables.rows[0])
    assert found.difference.value == pytest.approx(10 / 72)
    assert found.difference.low > 0


@pytest.mark.parametrize("tables", ["no labels"], indirect=True)
def test_a_better_row_is_told_from_luck(tables: Plan):
    assert against(tables, tables.rows[1], tables.rows[0]).p_value < 0.01


@pytest.mark.parametrize("tables", ["six labels"], indirect=True)
def test_queries_of_one_label_are_flipped_together(tables: Plan):
    """Six signs fall alike in 2 of 64 cases: fewer labels cannot prove more."""
    assert against(tables, tables.rows[1], tables.rows[0]).p_value > 0.02


def test_a_row_is_not_better_than_itself(tables: Plan):
    found = against(tables, tables.rows[0], tables.rows[0])
    assert (found.difference.value, found.p_value) == (0.0, 1.0)


def test_without_a_table_nothing_is_said(plan: Plan):
    assert against(plan, plan.rows[1], plan.rows[0]) is None
