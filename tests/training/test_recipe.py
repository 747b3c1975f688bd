"""Recipes: what a file may say, and what the paper's say."""

import pytest

from surefind.errors import InvalidArgument, InvalidFile
from surefind.training.recipe import Recipe, find_recipe, recipe_names

PAPER = [
    f"{data}-{backbone}-{loss}"
    for data in ("cub200", "cars196", "msls")
    for backbone in ("resnet50", "densenet161")
    for loss in ("triplet", "mc-dropout", "tripreg", "bayes-vmf", "bayes-gauss")
]


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_can_be_read_and_written_again(name: str, tmp_path):
    recipe = Recipe.read(name)
    copy = tmp_path / "copy.toml"
    copy.write_text(recipe.to_toml())
    assert Recipe.read(copy) == recipe


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_rows_have_the_papers_hyper_parameters(name: str):
    recipe = Recipe.read(name)
    assert recipe.encoder.dim == {"resnet50": 2048, "densenet161": 2208}[recipe.encoder.backbone]
    assert recipe.encoder.size == 224
    assert (recipe.batch.kind, recipe.batch.tuples, recipe.batch.negatives) == ("tuples", 25, 5)
    assert (recipe.mining.cache, recipe.mining.every) == (5000, 1000)
    optimiser = recipe.optimiser
    assert (optimiser.lr, optimiser.weight_decay, optimiser.decay) == (1e-5, 1e-3, 0.99)
    assert (recipe.augment.rotation, recipe.augment.scale) == (10, 0.4)
    assert recipe.augment.use and recipe.augment.flip
    assert recipe.loss.kl_scale == 1e-6


def test_there_is_a_recipe_for_every_row():
    assert set(PAPER) <= set(recipe_names())


def write(path, text: str):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        ("[loss]\nmargn = 0.1", "unknown key 'loss.margn'", "did you mean 'margin'?"),
        ("[los]\nmargin = 0.1", "unknown key 'los'", "did you mean 'loss'?"),
        ("loss = 3", "loss is a table", "[loss]"),
        ('[loss]\nname = "tripplet"', "loss.name", "correct loss.name"),
        ('[encoder]\ndim = "many"', "encoder.dim", "correct encoder.dim"),
        ("[schedule]\nsteps = 0", "schedule.steps", "set schedule.steps"),
        ("[variance]\nheld_out = 1.5", "variance.held_out", "set variance.held_out"),
        ('[encoder]\nfamily = "point"', "encoder.family", "set encoder.family"),
        ("not toml at all", "cannot read", "TOML"),
    ],
)
def test_a_wrong_recipe_is_refused_with_a_remedy(tmp_path, text: str, problem: str, fix: str):
    with pytest.raises(InvalidFile) as caught:
        Recipe.read(write(tmp_path / "wrong.toml", text))
    assert problem in caught.value.problem
    assert fix in caught.value.fix


def test_an_unknown_recipe_suggests_the_nearest():
    with pytest.raises(InvalidFile, match="glyphs-triplet"):
        find_recipe("glyph-tripplet")


def test_single_keys_can_be_overridden(tmp_path):
    empty = write(tmp_path / "empty.toml", "")
    recipe = Recipe.read(
        empty,
        ["loss.margin=0.3", "encoder.backbone=tiny", "seed=7", 'optimiser.freeze_first=["a"]'],
    )
    assert recipe.loss.margin == 0.3
    assert recipe.encoder.backbone == "tiny"
    assert recipe.seed == 7
    assert recipe.optimiser.freeze_first == ("a",)


@pytest.mark.parametrize("override", ["loss.margin", "=3", "seed.deep=3"])
def test_an_override_that_is_none_is_refused(tmp_path, override: str):
    with pytest.raises((InvalidArgument, InvalidFile)):
        Recipe.read(write(tmp_path / "seed.toml", "seed = 1"), [override])
