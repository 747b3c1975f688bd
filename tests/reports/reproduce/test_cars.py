"""Table 2 of the paper: models trained on birds, tested on cars."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from surefind.datasets import open_dataset
from surefind.errors import InvalidFile
from surefind.reports.report import evaluate_into
from surefind.reports.reproduce.compare import compare, to_markdown
from surefind.reports.reproduce.paper import COLUMNS
from surefind.reports.reproduce.run import ROWS, Plan, reproduce

TINY = ("encoder.backbone=tiny", "encoder.weights=none", "optimiser.freeze_first=[]")


def write_classes(folder: Path, numbers: range, *, seed: int) -> Path:
    random = np.random.default_rng(seed)
    for number in numbers:
        place = folder / "images" / f"{number:03d}.Name"
        place.mkdir(parents=True)
        for picture in range(3):
            pixels = random.integers(0, 255, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / f"{picture}.png")
    return folder


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """Birds and cars of a few classes on either side of where each is divided."""
    folder = tmp_path_factory.mktemp("data")
    write_classes(folder / "cub200", range(91, 105), seed=0)
    write_classes(folder / "cars196", range(96, 106), seed=1)
    return folder


@pytest.fixture
def cub(plan: Plan, data: Path) -> Plan:
    return Plan(
        "cub200",
        f"cub200:{data / 'cub200'}",
        plan.output,
        scale="cpu",
        rows=plan.rows,
        settings=(*plan.settings, *TINY),
    )


@pytest.fixture
def cars(cub: Plan, data: Path) -> Plan:
    return replace(cub, dataset="cars196", data=f"cars196:{data / 'cars196'}", train_data=cub.data)


def run(plan: Plan, work):
    return reproduce(plan, evaluate=work.evaluate, train=work.train)


def test_models_are_trained_on_birds(cars, work):
    found = run(cars, work)
    assert work.trained == ["triplet+cpu/seed-0", "bayes-gauss+cpu/seed-0"]
    assert work.trained_on == {f"{number:03d}.Name" for number in range(91, 101)}
    assert {result.about.data for row in found for result in row.results} == {cars.data}


def test_birds_are_needed_only_where_a_model_is_missing(cub, cars, work):
    with pytest.raises(InvalidFile, match="where is cub200.*\n  fix: .*--train-data FOLDER"):
        run(replace(cars, train_data=None), work)
    assert not cars.output.exists()
    run(cub, work)
    run(replace(cars, train_data=None), work)
    assert len(work.trained) == 2


def test_the_table_has_nine_columns_of_the_paper_and_says_what_it_has_not(cars, work):
    whole = replace(cars, rows=tuple(row for row in ROWS if row.name != "bayes-vmf-exact"))
    text = to_markdown(compare(whole, run(whole, work)))
    paper, ours, *_ = [line for line in text.splitlines() if line.startswith("| Bayes Gauss |")]
    assert paper.split(" | ")[3:] == [
        "0.431", "0.696", "0.795", "0.431", "0.235", "0.163", "0.094", "0.271", "0.343 |"
    ]  # fmt: skip
    assert ours.count("[") == len(COLUMNS) == 9
    for title in ("Triplet (MC=50)", "Bayes Gauss (Exp)", "Bayes centred"):
        assert f"| {title} | ours, not in the paper | 1 |" in text
        assert f"| {title} | paper |" not in text
    assert "Models trained on cub200:cub200. Data: cars196:cars196, 72 test queries." in text
    assert "no model of this table was trained on cars" in text
    assert "has its dropout in the head" in text


def test_a_real_evaluation_is_of_the_test_classes_of_cars_and_birds(cars):
    one = replace(cars, rows=cars.rows[:1], foreign=cars.train_data)
    (found,) = reproduce(one, evaluate=evaluate_into)
    about = found.results[0].about
    assert (about.classes, about.queries, about.split) == (7, 21, "test")  # 99 to 105
    assert about.foreign_queries == 12  # 101 to 104
    assert json.loads((one.output / "reproduce.json").read_text())["table"] == "cub200-cpu"


def test_cars_without_training_classes_are_enough(tmp_path: Path):
    write_classes(tmp_path, range(99, 103), seed=2)
    assert len(open_dataset(f"cars196:{tmp_path}").test) == 12
