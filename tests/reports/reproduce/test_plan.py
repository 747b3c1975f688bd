"""What a plan names is there."""

from dataclasses import replace
from pathlib import Path

import pytest

from surefind.errors import InvalidArgument, InvalidFile
from surefind.reports.reproduce.paper import BACKBONES
from surefind.reports.reproduce.plan import DATASETS, ROWS, SCALES, Plan, choose_rows, find_source
from surefind.training.recipe import recipe_names


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_row_has_a_recipe(dataset: str, backbone: str, scale: str):
    plan = Plan(dataset, "data", Path("out"), backbone=backbone, scale=scale)
    for row in ROWS:
        recipe = plan.recipe(row, 3)
        assert recipe.seed == 3
        assert recipe.loss.centred == (row.name == "bayes-centred")
        assert (recipe.encoder.family == "point") == (row.name in ("triplet", "mc-dropout"))
        assert set(plan.recipe_name(row).split("+")) <= set(recipe_names())


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_papers_backbones_have_torchvisions_weights(backbone: str):
    plan = Plan("cub200", "data", Path("out"), backbone=backbone)
    assert {plan.recipe(row, 0).encoder.backbone for row in ROWS} == {f"{backbone}.tv_in1k"}


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
    with pytest.raises(InvalidArgument, match="did you mean 'bayes-gauss'"):
        choose_rows(["bayes-gaus"])


@pytest.mark.parametrize(
    "wrong", [{"dataset": "cub"}, {"backbone": "vgg"}, {"scale": "gpu"}, {"seeds": 0}]
)
def test_a_plan_that_cannot_be_is_refused(wrong):
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        replace(Plan("cub200", "data", Path("out")), **wrong)


def test_data_is_found_by_its_usual_name(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SUREFIND_DATA", str(tmp_path))
    (tmp_path / "CUB_200_2011").mkdir()
    assert find_source("cub200", None) == f"cub200:{tmp_path}/CUB_200_2011"
    with pytest.raises(InvalidFile, match="where is msls.*\n.*--data FOLDER"):
        find_source("msls", None)


def test_a_plain_folder_is_read_as_the_data_set(tmp_path: Path):
    assert find_source("cub200", str(tmp_path)) == f"cub200:{tmp_path}"
    assert find_source("cub200", f"folder:{tmp_path}") == f"folder:{tmp_path}"
    assert find_source("glyphs", None) == "glyphs"
    with pytest.raises(InvalidFile, match="no such folder"):
        find_source("cub200", str(tmp_path / "nothing"))
