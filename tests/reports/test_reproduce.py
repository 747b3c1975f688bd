"""Reproduce: rows, seeds, resuming, and finished work that is not done again."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from surefind.errors import InvalidFile
from surefind.reports.report import evaluate_into
from surefind.reports.reproduce import (
    BACKBONES,
    DATASETS,
    ROWS,
    SCALES,
    Interrupted,
    Plan,
    choose_rows,
    find_source,
    reproduce,
)
from surefind.reports.result import EvalResult
from surefind.training.recipe import recipe_names


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("scale", SCALES)
def test_every_row_has_a_recipe(backbone: str, scale: str):
    for dataset in DATASETS:
        plan = Plan(dataset, "data", Path("out"), backbone=backbone, scale=scale)
        for row in ROWS:
            recipe = plan.recipe(row, 3)
            assert recipe.seed == 3
            assert recipe.loss.centred == (row.name == "bayes-centred")
            assert (recipe.encoder.family == "point") == (row.name in ("triplet", "mc-dropout"))
            assert set(plan.recipe_name(row).split("+")) <= set(recipe_names())
            if plan.at_paper_scale:
                assert recipe.encoder.backbone == f"{backbone}.tv_in1k"
            if row.name == "mc-dropout":  # in the head where the backbone has none
                inside = plan.at_paper_scale and backbone == "densenet161"
                assert (recipe.encoder.dropout, recipe.encoder.head_dropout) == ((0.2, 0) if inside else (0, 0.2))


def test_tables_have_names_of_their_own_and_rows_keep_their_order():
    plan = Plan("cub200", "data", Path("out"))
    assert plan.name == "cub200-resnet50"
    assert replace(plan, scale="cpu").name == "cub200-cpu"
    assert replace(plan, dataset="glyphs").name == "glyphs"
    assert [row.title for row in choose_rows("tripreg, triplet")] == ["Triplet", "TripReg"]


def test_data_is_what_was_given_or_a_folder_of_a_usual_name(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SUREFIND_DATA", str(tmp_path))
    (tmp_path / "CUB_200_2011").mkdir()
    assert find_source("cub200", None) == f"cub200:{tmp_path}/CUB_200_2011"
    assert find_source("cub200", str(tmp_path)) == f"cub200:{tmp_path}"
    assert find_source("cub200", f"folder:{tmp_path}") == f"folder:{tmp_path}"
    assert find_source("glyphs", None) == "glyphs"
    with pytest.raises(InvalidFile, match="no such folder"):
        find_source("cub200", str(tmp_path / "nothing"))
    with pytest.raises(InvalidFile, match="where is msls.*\n.*--data FOLDER"):
        find_source("msls", None)


MODELS = ["triplet+glyphs/seed-0", "bayes-gauss+glyphs/seed-0"]


def run(plan, work, **callbacks):
    return reproduce(plan, evaluate=work.evaluate, train=work.train, **callbacks)


def test_rows_that_share_a_model_share_its_training_and_evaluation(plan, work):
    found = run(plan, work)
    assert work.trained == MODELS
    assert work.evaluated == [(model, None) for model in MODELS]
    assert list(found) == list(plan.rows)
    assert found[plan.rows[1]] == found[plan.rows[2]]


def test_every_seed_is_a_run_of_its_own_and_dropout_has_fifty_passes(plan, work):
    found = run(replace(plan, seeds=2, rows=choose_rows("mc-dropout")), work)
    seeds = [f"mc-dropout-heads+glyphs/seed-{seed}" for seed in range(2)]
    assert work.trained == seeds
    assert work.evaluated == [(seed, 50) for seed in seeds]
    assert [len(results) for results in found.values()] == [2]


def test_a_model_of_another_recipe_is_refused(plan, work):
    run(plan, work)
    changed = replace(plan, settings=(*plan.settings, "loss.margin=0.5"))
    with pytest.raises(InvalidFile, match=r"loss.margin = .*, not 0.5\n  fix: use --set loss"):
        run(changed, work)
    assert len(work.trained) == 2


def test_results_of_other_data_or_an_older_format_and_unreadable_ones_are_made_again(plan, work):
    run(plan, work)
    found = run(replace(plan, foreign="glyphs"), work)
    assert found[plan.rows[0]][0].about.foreign == "glyphs"
    assert (len(work.trained), len(work.evaluated)) == (2, 4)
    run(plan, work)
    assert len(work.evaluated) == 6
    first, second = (plan.evaluation(row, 0) / "results.json" for row in plan.rows[:2])
    replace(EvalResult.read(first), format=1).write(first)
    second.write_text("{")
    run(plan, work)
    assert len(work.evaluated) == 8


def test_a_folder_of_another_table_is_refused(plan, work):
    run(plan, work)
    with pytest.raises(InvalidFile, match="was made with data .*, not glyphs\n  fix: use the same data"):
        run(replace(plan, data="glyphs"), work)
    with pytest.raises(InvalidFile, match="was made with table glyphs, not cub200-cpu"):
        run(replace(plan, dataset="cub200", scale="cpu"), work)


def test_a_stopped_training_goes_on_where_it_was(plan, work):
    said: list[str] = []
    steps: list[int] = []
    one = replace(plan, rows=plan.rows[:1])

    log_all = replace(one, settings=(*one.settings, "schedule.log_every=1"))

    def train_for_real(stop_at: int = 99) -> None:
        reproduce(
            log_all,
            evaluate=work.evaluate,
            say=said.append,
            on_step=lambda info: steps.append(info.step),
            should_stop=lambda: stop_at in steps,
        )

    with pytest.raises(Interrupted, match="run it again"):
        train_for_real(stop_at=2)
    assert steps[-1] == 2
    train_for_real()
    assert said == [
        f"[1/1] Triplet, seed 0: training on {plan.data}",
        f"[1/1] Triplet, seed 0: training on {plan.data}, resumed",
        f"[1/1] Triplet, seed 0: evaluating on {plan.data}",
    ]
    train_for_real()
    assert said[-2] == "[1/1] Triplet, seed 0: model is there"
    assert steps.count(3) == 1


def test_a_training_without_a_first_state_starts_anew(plan, work):
    run(plan, work)
    folder = plan.model(plan.rows[0], 0)
    (folder / "run" / "rejected.csv").unlink()
    run(plan, work)
    assert work.trained == [*MODELS, MODELS[0]]


# Table 2 of the paper: models trained on birds, tested on cars.

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


def test_birds_are_needed_only_where_a_model_is_missing(cub, cars, work):
    with pytest.raises(InvalidFile, match="where is cub200.*\n  fix: .*--train-data FOLDER"):
        run(replace(cars, train_data=None), work)
    assert not cars.output.exists()
    run(cub, work)
    found = run(replace(cars, train_data=None), work)
    assert work.trained == ["triplet+cpu/seed-0", "bayes-gauss+cpu/seed-0"]
    assert work.trained_on == {f"{number:03d}.Name" for number in range(91, 101)}
    assert {result.about.data for results in found.values() for result in results} == {cars.data}


def test_a_real_evaluation_is_of_the_test_classes_of_cars_and_birds(cars):
    one = replace(cars, rows=cars.rows[:1], foreign=cars.train_data)
    ((result,),) = reproduce(one, evaluate=evaluate_into).values()
    about = result.about
    assert (about.classes, about.queries, about.split) == (7, 21, "test")  # 99 to 105
    assert about.foreign_queries == 12  # 101 to 104
    assert json.loads((one.output / "reproduce.json").read_text())["table"] == "cub200-cpu"
