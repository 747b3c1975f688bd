"""What benchmarks have written becomes rows; the examples are of small runs."""

import json
from pathlib import Path

import all_rows_onnx as onnx
import all_rows_quality as quality
import all_rows_speed as speed
import pytest
from all_parts import PARTS, SIZES, Part
from all_rows import Result, Row

EXAMPLES = Path(__file__).parent / "examples"


def example(name: str) -> Result:
    found: Result = json.loads((EXAMPLES / f"{name}.json").read_text())
    return found


def one(rows: list[Row], words: str) -> Row:
    (row,) = [row for row in rows if words in row.what]
    return row


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_benchmark_gives_rows_with_figures(part: Part) -> None:
    rows = part.rows(example(part.name))
    assert rows
    assert all(row.what and row.figure for row in rows)
    assert all(row.target for row in rows if row.met is not None)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_command_can_be_shown_without_a_place_of_this_machine(part: Part) -> None:
    for size in SIZES:
        assert part.shown(size).startswith(f"python benchmarks/{part.script.name}")
        assert "{" not in part.shown(size)


def test_a_ratio_that_only_looks_right_when_rounded_is_not_kept() -> None:
    found = example("search")
    ratios = dict.fromkeys(found["of_bare_faiss"], 0.896)
    row = one(speed.search({**found, "of_bare_faiss": ratios}), "HNSW, one by one: queries/s")
    assert row.figure == "0.90 x"
    assert row.met is False


@pytest.mark.parametrize(("ratio", "kept"), [(0.37, True), (0.41, False)])
def test_the_loss_is_judged_against_the_loss_of_the_other_library(
    ratio: float, *, kept: bool
) -> None:
    found = dict(example("loss"))
    title = "all triplets, batch 256 of 64 classes, D = 511"
    ratios = {**found[title]["ratios"], "BayesianTripletLoss clt": ratio}
    found[title] = {**found[title], "ratios": ratios}
    row = one(speed.loss(found), "TripletMarginLoss(labels)")
    assert (row.figure, row.met) == (f"{ratio:.2f} x", kept)


def test_the_loss_is_faster_by_as_much_as_the_other_formula_is_slower() -> None:
    found = dict(example("loss"))
    ratios = {"element-wise formula": 7.2, "BayesianTripletLoss clt": 1.0}
    found["125 index triplets, D = 2047"] = {"ratios": ratios}
    row = one(speed.loss(found), "coordinate by coordinate")
    assert (row.figure, row.met) == ("7.2 x", True)


def test_an_evaluation_is_judged_against_both_searches_that_it_needs() -> None:
    found = dict(example("evaluate"))
    found["seconds"] = {
        "bare search": 18.0,
        "surefind, means": 18.0,
        "both bare searches": 36.0,
        "surefind, both rankings, every signal": 45.0,
        "pytorch-metric-learning": 20.0,
    }
    row = one(speed.evaluate(found), "both rankings, every signal")
    assert (row.figure, row.met) == ("1.25 x", False)


def test_the_largest_gallery_is_the_one_that_is_told() -> None:
    found = dict(example("growth"))
    small, large = found["results"]["flat"][0], dict(found["results"]["flat"][0])
    large["searching, MB beyond the mapped file"] = 300.0
    found |= {"sizes": [1000, 10_000], "results": {"flat": [small, large]}}
    row = one(speed.growth(found), "10,000 x 128")
    assert (row.figure, row.met) == ("300 MB", False)


def test_a_service_that_grows_is_not_flat() -> None:
    found = dict(example("serve"))
    memory = {"first third": 800.0, "last third": 900.0, "most": 900.0}
    found["overload"] = {**found["overload"], "memory, MB": memory}
    assert one(speed.serve(found), "memory, first and last third").met is False


def test_a_health_page_that_once_failed_is_not_on_time() -> None:
    found = dict(example("serve"))
    pulse = {"p50": 1.0, "p99": 2.0, "failed": 1}
    found["overload"] = {**found["overload"], "health, ms": pulse}
    assert one(speed.serve(found), "`/healthz` p99").met is False


def test_confidence_has_rows_for_each_set_of_features() -> None:
    rows = quality.confidence(example("confidence"))
    birds = one(rows, "MobileNetV2: AUROC")
    assert (birds.figure, birds.met) == ("0.824", True)
    assert one(rows, "MobileNetV2, cars: AUROC").met is False


def test_a_promise_that_was_never_made_is_not_called_kept() -> None:
    rows = quality.confidence(example("confidence"))
    birds, cars = [row for row in rows if "promised with probability" in row.what]
    assert birds.met is True
    assert cars.met is None
    assert cars.figure.endswith("(promised in 0%)")


def test_nothing_is_promised_of_symbols_among_letters() -> None:
    rows = quality.confidence(example("confidence_glyphs"))
    assert one(rows, "foreign queries").met is None


def test_an_untrained_backbone_is_what_birds_are_compared_with() -> None:
    rows = quality.retrieval_birds(example("retrieval_birds"))
    assert len(rows) == 3
    assert all("untrained 0.544" in row.what for row in rows)


@pytest.mark.parametrize(("fp32", "int8"), [(1.9, 2.9), (1.7, 3.1)])
def test_onnx_is_judged_on_the_backbone_that_was_promised(fp32: float, int8: float) -> None:
    ours = {"torch, shared out": 1.2, "onnx, shared out": 1.8, "onnx-int8, shared out": 3.6}
    found = {"ratio": {"onnx, batches of 8": fp32, "onnx-int8, batches of 8": int8} | ours}
    rows = onnx.export_speed({"speed": {"ResNet-50": found, "MobileNetV2": found}})
    judged = [fp32 >= 1.8, None, int8 >= 3, None]
    assert [row.met for row in rows] == [*judged, None, None, None, None]
    assert [rows[1].figure, rows[3].figure] == ["1.50 x", "3.00 x"]


def test_int8_is_judged_by_the_signal_that_it_changes_most() -> None:
    exact = {"R@1": 0.6, "AUROC query_var": 0.5, "AUROC d1": 0.7}
    less = {"R@1": -0.002, "AUROC query_var": 0.003, "AUROC d1": -0.02}
    found = {"quality": {"ResNet-50": {"torch": exact, "int8 - torch": less}}}
    recall, error = onnx.export_quality(found)
    assert (recall.figure, recall.met) == ("-0.0020", True)
    assert (error.figure, error.met) == ("-0.0200", False)
    assert "AUROC d1" in error.what
