"""Comparison with the paper, and its Markdown."""

from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from surefind.metrics.intervals import Estimate
from surefind.reports.reproduce import (
    COLUMNS,
    ROWS,
    Plan,
    SeedMean,
    against,
    compare,
    over_seeds,
    paper_tables,
    to_markdown,
)
from surefind.reports.result import EvalResult, QueryTable

# In thousandths: the sum of each table, added up from the print, and the sum of each row of
# paper.csv, a checksum against edits.
PRINTED = {
    ("cub200", "resnet50"): (21456, (4022, 4929, 4245, 4087, 4173)),
    ("cub200", "densenet161"): (26485, (4398, 3530, 5215, 4741, 4495, 4106)),
    ("cars196", "resnet50"): (13975, (2872, 4177, 3467, 3459)),
    ("cars196", "densenet161"): (18476, (3083, 3913, 4287, 3817, 3376)),
    ("msls", "resnet50"): (12986, (2194, 3847, 3872, 3073)),
    ("msls", "densenet161"): (16268, (2402, 3598, 3943, 3297, 3028)),
}


def test_the_figures_of_each_table_and_row_add_up():
    sums: dict[tuple[str, str], tuple[int, ...]] = {}
    for (dataset, backbone, _), figures in paper_tables().items():
        row = sum(round(1000 * figure) for figure in figures.values())
        sums[dataset, backbone] = (*sums.get((dataset, backbone), ()), row)
    assert sums == {table: rows for table, (_, rows) in PRINTED.items()}
    assert [sum(rows) for rows in sums.values()] == [total for total, _ in PRINTED.values()]
    assert sum(map(len, paper_tables().values())) == 243
    assert {row for _, _, row in paper_tables()} == {row.paper for row in ROWS if row.paper}


def test_the_slips_of_the_papers_tables_are_those_that_the_notes_name():
    paper = paper_tables()
    odd = {where for where, figures in paper.items() if figures["R@1"] != figures["M@1"]}
    assert odd == {("cub200", "resnet50", "Bayes Triplet (Exp)"), ("cars196", "densenet161", "Bayes vMF")}
    copied, source = (paper["msls", "resnet50", row] for row in ("Bayes vMF", "TripReg"))
    assert [copied[column] for column in COLUMNS[6:]] == [source[column] for column in COLUMNS[6:]]


NONE = "\N{EN DASH}"


@pytest.fixture
def found(evaluation) -> EvalResult:
    return evaluation[0]


@pytest.fixture
def cub() -> Plan:
    return Plan("cub200", "cub200:/some/where/birds", Path("out"), scale="cpu")


def page(plan: Plan, *found: EvalResult) -> str:
    return to_markdown(compare(plan, dict.fromkeys(plan.rows, found)))


def lines(text: str, title: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"| {title} |")]


def test_both_figures_and_our_interval_are_shown(cub, found):
    paper, ours, uncertainty, foreign = lines(page(cub, found), "Bayes Gauss")
    assert paper.startswith(f"| Bayes Gauss | paper | {NONE} | 0.612 | 0.842 | 0.902 | 0.612")
    assert ours.startswith("| Bayes Gauss | ours | 1 | 0.600 [0.580, 0.620] | 0.800 [")
    assert "0.110 [0.090, 0.130]" in ours  # ECE@1
    assert "0.700 [0.680, 0.720]" in uncertainty
    assert foreign.count("0.900 [0.880, 0.920]") == 2


def test_the_scale_and_another_test_set_are_named(cub, found):
    text = page(cub, found)
    assert "CPU scale: mobilenetv2_100, `+cpu` recipes, not the paper's backbone" in text
    assert "120 test queries. **This is not the paper's test set**: CUB-200-2011 has 5,924" in text
    whole = replace(found, about=replace(found.about, queries=5924))
    command = "surefind reproduce cub200 -o /some/out --set encoder.weights=/some/w.safetensors"
    text = page(replace(cub, scale="paper", command=command), whole)
    assert "Paper scale: resnet50.tv_in1k, its rows' recipes" in text
    assert "not the paper's test set" not in text
    assert "`surefind reproduce cub200 -o out --set encoder.weights=w.safetensors`" in text


def test_a_model_without_variance_has_only_training_free_signals(cub, found):
    means = found.rankings["means"]
    free = {name: means.signals[name] for name in ("nearest_distance", "ratio_1_2")}
    free["ratio_1_2"] = free["ratio_1_2"] | {"auroc": Estimate(0.8, 0.7, 0.9)}
    point = replace(found, rankings={"means": replace(means, ece={}, signals=free)})
    one = replace(cub, rows=ROWS[:1])
    _, ours, uncertainty, foreign = lines(page(one, point), "Triplet")
    assert ours.endswith(f"| {NONE} | {NONE} | {NONE} |")
    assert f"d₁/d₂ | {NONE} | 0.800 [0.700, 0.900] | {NONE} | 0.200 [0.180, 0.220] |" in uncertainty
    assert foreign == f"| Triplet | {NONE} | 0.900 [0.880, 0.920] |"


def test_seeds_are_averaged_and_their_spread_shown(cub, found):
    both = over_seeds([Estimate(0.5, 0.4, 0.7), Estimate(0.7, 0.6, 0.8)])
    assert astuple(both) == pytest.approx((0.6, 0.5, 0.75, 0.1 * 2**0.5))
    assert over_seeds([Estimate(0.5, 0.4, 0.7)]) == SeedMean(0.5, 0.4, 0.7, None)
    assert over_seeds([Estimate(0.5, 0.4, 0.7), None]) is None
    _, ours, *_ = lines(page(cub, found, found), "TripReg")
    assert ours.startswith("| TripReg | ours | 2 | 0.600 [0.580, 0.620] ± 0.000 |")


@pytest.mark.parametrize(("labels", "least", "most"), [(True, 0.02, 1), (False, 0, 0.01)])
def test_the_paired_test_flips_queries_of_one_label_together(
    evaluation, plan: Plan, labels: bool, least: float, most: float
):
    """Ten more queries are right in the second row. Six signs fall alike in 2 of 64 cases."""
    queries = evaluation[1]
    if not labels:
        queries = QueryTable(queries.columns | {"label": np.full(len(queries), "")})
    plan = replace(plan, seeds=2)
    assert against(plan, plan.rows[1], plan.rows[0]) is None  # there is no table of queries
    for row, better in ((plan.rows[0], 0), (plan.rows[1], 10)):
        right = queries["means.match_1"].copy()
        right[np.flatnonzero(~right)[:better]] = True
        table = QueryTable(queries.columns | {"means.match_1": right})
        for seed in range(2):
            folder = plan.evaluation(row, seed)
            folder.mkdir(parents=True)
            table.write(folder / "queries.csv")
    found = against(plan, plan.rows[1], plan.rows[0])
    assert found.difference.value == pytest.approx(10 / 120)
    assert found.difference.low > 0
    assert least <= found.p_value < most
