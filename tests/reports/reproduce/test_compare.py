"""The paper's figures and ours: compared, and shown."""

import json
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
from evaluations import make_evaluation
from rich.console import Console

from surefind.errors import InvalidFile
from surefind.metrics.bootstrap import Estimate
from surefind.reports.reproduce.compare import SeedMean, against, compare, over_seeds
from surefind.reports.reproduce.markdown import into, to_markdown, to_terminal
from surefind.reports.reproduce.plan import ROWS, Plan
from surefind.reports.reproduce.run import RowResult

NONE = "\N{EN DASH}"


@pytest.fixture
def cub() -> Plan:
    return Plan("cub200", "cub200:/some/where/birds", Path("out"), scale="cpu")


def results(plan: Plan, *found) -> list[RowResult]:
    return [RowResult(row, plan.recipe_name(row), found) for row in plan.rows]


def page(plan: Plan, *found) -> str:
    return to_markdown(compare(plan, results(plan, *found)))


def lines(text: str, title: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"| {title} |")]


def test_both_figures_and_our_interval_are_shown(cub, found):
    paper, ours, uncertainty, foreign = lines(page(cub, found), "Bayes Gauss")
    assert paper.startswith(f"| Bayes Gauss | paper | {NONE} | 0.612 | 0.842 | 0.902 | 0.612")
    assert ours.startswith("| Bayes Gauss | ours | 1 | 0.600 [0.580, 0.620] | 0.800 [")
    assert "0.110 [0.090, 0.130]" in ours  # ECE@1
    assert "0.700 [0.680, 0.720]" in uncertainty
    assert foreign.count("0.900 [0.880, 0.920]") == 2


@pytest.mark.parametrize(("classes", "drawn"), [(6, "whole classes"), (0, "single queries")])
def test_what_intervals_resample_is_told(cub, found, classes: int, drawn: str):
    text = page(cub, replace(found, about=replace(found.about, resampled_classes=classes)))
    assert f"which does not cover chance in training: {drawn} are resampled." in text
    assert f"flips the signs of {drawn}." in text


def test_the_papers_errors_are_footnotes(cub, found):
    text = page(cub, found)
    assert f"| Bayes Gauss (Exp) | paper | {NONE} | 0.632¹ | 0.857 | 0.912 | 0.630¹ |" in text
    assert "\n¹ R@1 and M@1 are one quantity" in text
    assert "margin" in text
    assert "²" not in text


def test_the_scale_and_foreign_test_sets_are_told(cub, found):
    text = page(cub, found)
    assert "CPU scale: mobilenetv2_100, `+cpu` recipes, not the paper's backbone" in text
    assert "72 test queries. **This is not the paper's test set**: CUB-200-2011 has 5,924" in text


def test_the_papers_own_test_set_needs_no_warning(cub, found):
    whole = replace(found, about=replace(found.about, queries=5924))
    text = page(replace(cub, scale="paper"), whole)
    assert "Paper scale: resnet50.tv_in1k, its rows' recipes" in text
    assert "not the paper's test set" not in text


def test_the_command_is_told_without_the_folders_of_a_machine(cub, found):
    settings = ("encoder.weights=/some/where/w.safetensors",)
    text = page(replace(cub, settings=settings, foreign="folder:/some/where/cars"), found)
    assert "/some" not in text
    assert "reproduce cub200 --data cub200:birds --backbone resnet50 --scale cpu" in text
    assert "--ood folder:cars --set encoder.weights=w.safetensors`" in text


def test_a_model_without_variance_has_no_doubt_of_its_own(cub, found):
    means = found.rankings["means"]
    free = {name: means.signals[name] for name in ("nearest_distance", "ratio_1_2")}
    free["ratio_1_2"] = replace(free["ratio_1_2"], auroc=Estimate(0.8, 0.7, 0.9))
    point = replace(found, rankings={"means": replace(means, ece={}, signals=free)})
    one = replace(cub, rows=ROWS[:1])
    _, ours, uncertainty, foreign = lines(page(one, point), "Triplet")
    assert ours.endswith(f"| {NONE} | {NONE} | {NONE} |")
    assert f"d₁/d₂ | {NONE} | 0.800 [0.700, 0.900] | {NONE} | 0.200 [0.180, 0.220] |" in uncertainty
    assert foreign == f"| Triplet | {NONE} | 0.900 [0.880, 0.920] |"


def test_seeds_are_averaged_and_their_spread_told(cub, found):
    both = over_seeds([Estimate(0.5, 0.4, 0.7), Estimate(0.7, 0.6, 0.8)])
    assert astuple(both) == pytest.approx((0.6, 0.5, 0.75, 0.1 * 2**0.5))
    assert over_seeds([Estimate(0.5, 0.4, 0.7)]) == SeedMean(0.5, 0.4, 0.7, None)
    assert over_seeds([Estimate(0.5, 0.4, 0.7), None]) is None
    _, ours, *_ = lines(page(cub, found, found), "TripReg")
    assert ours.startswith("| TripReg | ours | 2 | 0.600 [0.580, 0.620] ± 0.000 |")


def test_the_terminal_shows_every_figure_in_eighty_columns(cub, found):
    console = Console(width=80)
    with console.capture() as captured:
        console.print(to_terminal(compare(cub, results(cub, found, found))))
    shown = captured.get()
    assert "…" not in shown
    for part in ("0.632¹", "0.397", "[0.580, 0.620]", "± 0.000", "CPU scale", "not the paper's"):
        assert part in shown


def test_the_table_as_json_has_figures_by_name(cub, found):
    table = json.loads(json.dumps(compare(cub, results(cub, found)).as_dict()))
    row = table["rows"][5]
    assert row["paper"]["R@1"] == 0.632
    assert row["ours"]["R@1"] == {
        "value": 0.6, "low": pytest.approx(0.58), "high": pytest.approx(0.62), "std": None
    }  # fmt: skip
    assert row["footnotes"] == {"R@1": 1, "M@1": 1}


def test_only_the_tables_place_in_a_document_changes(tmp_path: Path):
    document = tmp_path / "results.md"
    document.write_text("before\n<!-- begin a -->\nold\n<!-- end a -->\nafter\n")
    for _ in range(2):
        into(document, "a", "new\n")
        assert document.read_text() == "before\n<!-- begin a -->\nnew\n<!-- end a -->\nafter\n"


@pytest.mark.parametrize("text", ["nothing", "<!-- begin a -->", "<!-- end a --><!-- begin a -->"])
def test_a_document_without_the_place_is_refused(text: str, tmp_path: Path):
    (tmp_path / "results.md").write_text(text)
    with pytest.raises(InvalidFile, match="<!-- begin a --> and <!-- end a -->"):
        into(tmp_path / "results.md", "a", "new")
    assert (tmp_path / "results.md").read_text() == text


def test_data_that_no_row_was_trained_for_has_a_table_of_its_own(cub, found):
    rows = [row._replace(zero_shot=((found,),)) for row in results(cub, found)]
    text = to_markdown(compare(replace(cub, zero_shot=("folder:/some/where/cars",)), rows))
    assert "**Zero-shot (ours): folder:data, 72 queries, 6 classes**" in text
    assert "--zero-shot folder:cars" in text
    assert len(lines(text, "Bayes vMF")) == 5  # paper, ours, wrong hits, foreign, zero-shot


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


def test_without_a_table_nothing_is_said(plan: Plan):
    assert against(plan, plan.rows[1], plan.rows[0]) is None
