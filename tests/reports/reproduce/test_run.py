"""Reproduce: rows, seeds, resuming, and finished work that is not done again."""

from dataclasses import replace
from pathlib import Path

import pytest

from surefind.errors import InvalidFile
from surefind.reports.reproduce.paper import BACKBONES
from surefind.reports.reproduce.run import (
    DATASETS,
    ROWS,
    SCALES,
    Interrupted,
    Plan,
    Reporter,
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


def test_dropout_is_in_the_head_where_the_backbone_has_none():
    (row,) = choose_rows(["mc-dropout"])
    plan = Plan("cub200", "data", Path("out"), backbone="densenet161")
    assert plan.recipe(row, 0).encoder.dropout == 0.2
    for other in (replace(plan, backbone="resnet50"), replace(plan, scale="cpu")):
        encoder = other.recipe(row, 0).encoder
        assert (encoder.dropout, encoder.head_dropout) == (0, 0.2)


def test_tables_have_names_of_their_own():
    plan = Plan("cub200", "data", Path("out"))
    assert plan.name == "cub200-resnet50"
    assert replace(plan, scale="cpu").name == "cub200-cpu"
    assert replace(plan, dataset="glyphs").name == "glyphs"


def test_rows_are_chosen_by_name_and_keep_their_order():
    assert [row.title for row in choose_rows(["tripreg", "triplet"])] == ["Triplet", "TripReg"]


def test_data_is_found_by_its_usual_name(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SUREFIND_DATA", str(tmp_path))
    (tmp_path / "CUB_200_2011").mkdir()
    assert find_source("cub200", None) == f"cub200:{tmp_path}/CUB_200_2011"
    with pytest.raises(InvalidFile, match="where is msls.*\n.*--data FOLDER"):
        find_source("msls", None)


MODELS = ["triplet+glyphs/seed-0", "bayes-gauss+glyphs/seed-0"]


def run(plan, work, **reporter):
    return reproduce(plan, evaluate=work.evaluate, train=work.train, reporter=Reporter(**reporter))


def test_rows_that_share_a_model_share_its_training_and_evaluation(plan, work):
    found = run(plan, work)
    assert work.trained == MODELS
    assert work.evaluated == [(model, None) for model in MODELS]
    assert [result.row.title for result in found] == ["Triplet", "Bayes Gauss", "Bayes Gauss (Exp)"]
    assert found[1].results == found[2].results


def test_every_seed_is_a_run_of_its_own(plan, work):
    run(plan, work)
    found = run(replace(plan, seeds=2), work)
    assert work.trained == MODELS + [model.replace("-0", "-1") for model in MODELS]
    assert [len(result.results) for result in found] == [2, 2, 2]


def test_dropout_is_evaluated_with_fifty_passes(plan, work):
    run(replace(plan, rows=choose_rows(["mc-dropout"])), work)
    assert work.evaluated == [("mc-dropout-heads+glyphs/seed-0", 50)]


def test_a_model_of_another_recipe_is_refused(plan, work):
    run(plan, work)
    changed = replace(plan, settings=(*plan.settings, "loss.margin=0.5"))
    with pytest.raises(InvalidFile, match=r"loss.margin = .*, not 0.5\n  fix: use --set loss"):
        run(changed, work)
    assert len(work.trained) == 2


def test_other_foreign_data_is_evaluated_anew_with_the_same_model(plan, work):
    run(plan, work)
    found = run(replace(plan, foreign="glyphs"), work)
    assert found[0].results[0].about.foreign == "glyphs"
    assert (len(work.trained), len(work.evaluated)) == (2, 4)
    run(plan, work)
    assert len(work.evaluated) == 6


def test_unreadable_results_and_those_of_an_older_format_are_made_again(plan, work):
    run(plan, work)
    path = plan.evaluation(plan.rows[0], 0) / "results.json"
    replace(EvalResult.read(path), format=1).write(path)
    run(plan, work)
    assert len(work.evaluated) == 3
    path.write_text("{")
    run(plan, work)
    assert len(work.evaluated) == 4


def test_a_folder_of_another_table_is_refused(plan, work):
    run(plan, work)
    with pytest.raises(
        InvalidFile, match="was made with data .*, not glyphs\n  fix: use the same data"
    ):
        run(replace(plan, data="glyphs"), work)
    with pytest.raises(InvalidFile, match="was made with table glyphs, not cub200-cpu"):
        run(replace(plan, dataset="cub200", scale="cpu"), work)


def test_a_wrong_setting_is_found_before_anything_is_made(plan, work):
    with pytest.raises(InvalidFile, match="loss.margn"):
        run(replace(plan, settings=("loss.margn=1",)), work)
    assert not plan.output.exists()


def test_it_stops_between_rows_when_asked(plan, work):
    with pytest.raises(Interrupted, match=r"stopped at \[2/3\] Bayes Gauss"):
        run(plan, work, should_stop=lambda: len(work.evaluated) == 1)
    assert work.trained == MODELS[:1]
    run(plan, work)
    assert work.trained == MODELS


def test_a_stopped_training_goes_on_where_it_was(plan, work):
    said: list[str] = []
    steps: list[int] = []
    one = replace(plan, rows=plan.rows[:1])

    def listen(stop_at: int) -> Reporter:
        return Reporter(said.append, lambda info: steps.append(info.step), lambda: stop_at in steps)

    log_all = replace(one, settings=(*one.settings, "schedule.log_every=1"))
    with pytest.raises(Interrupted, match="run it again"):
        reproduce(log_all, evaluate=work.evaluate, reporter=listen(2))
    assert steps[-1] == 2
    reproduce(log_all, evaluate=work.evaluate, reporter=listen(99))
    assert said == [
        f"[1/1] Triplet, seed 0: training on {plan.data}",
        f"[1/1] Triplet, seed 0: training on {plan.data}, resumed",
        f"[1/1] Triplet, seed 0: evaluating on {plan.data}",
    ]
    reproduce(log_all, evaluate=work.evaluate, reporter=listen(99))
    assert said[-2] == "[1/1] Triplet, seed 0: model is there"
    assert steps.count(3) == 1


def test_a_training_without_a_first_state_starts_anew(plan, work):
    run(plan, work)
    folder = plan.model(plan.rows[0], 0)
    (folder / "run" / "rejected.csv").unlink()
    run(plan, work)
    assert work.trained == [*MODELS, MODELS[0]]


def test_a_plain_folder_is_read_as_the_data_set(tmp_path: Path):
    assert find_source("cub200", str(tmp_path)) == f"cub200:{tmp_path}"
    assert find_source("cub200", f"folder:{tmp_path}") == f"folder:{tmp_path}"
    assert find_source("glyphs", None) == "glyphs"
    with pytest.raises(InvalidFile, match="no such folder"):
        find_source("cub200", str(tmp_path / "nothing"))
