"""Recipes: what a file may say, and what the paper's say."""

import pytest

from surefind.errors import InvalidArgument, InvalidFile
from surefind.training.build import make_encoder
from surefind.training.recipe import EncoderPart, Recipe, recipe_names

ROWS = ("triplet", "mc-dropout", "tripreg", "bayes-vmf", "bayes-gauss")
OURS = ("mc-dropout-heads", "bayes-gauss-unit", "bayes-centred", "bayes-vmf-exact")


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_can_be_read_and_written_again(name: str, tmp_path):
    recipe = Recipe.read(name)
    copy = tmp_path / "copy.toml"
    copy.write_text(recipe.to_toml())
    assert Recipe.read(copy) == recipe


@pytest.mark.parametrize("name", ROWS)
def test_the_papers_rows_are_the_papers(name: str):
    """Each key that the paper states, and each addition of ours switched off."""
    recipe = Recipe.read(name)
    encoder, batch, mining = recipe.encoder, recipe.batch, recipe.mining
    optimiser, augment = recipe.optimiser, recipe.augment
    assert (encoder.backbone, encoder.weights, encoder.dim) == ("resnet50.tv_in1k", "pretrained", 0)
    assert encoder.size == 224
    assert not (encoder.unit_pooling or encoder.variance_layer_norm)
    assert (encoder.head_dropout, encoder.start) == (0, "random")
    assert encoder.dropout == (0.2 if name == "mc-dropout" else 0)
    assert (batch.kind, batch.tuples, batch.negatives) == ("tuples", 25, 5)
    assert (mining.cache, mining.every) == (5000, 1000)
    assert (optimiser.lr, optimiser.weight_decay, optimiser.decay) == (1e-5, 1e-3, 0.99)
    assert optimiser.backbone_lr is optimiser.variance_lr is optimiser.clip is None
    assert (optimiser.freeze, optimiser.freeze_first) == ("none", ())
    assert (augment.use, augment.rotation, augment.scale, augment.flip) == (True, 10, 0.4, True)
    assert augment.jitter > 0
    assert augment.size is None
    assert (recipe.variance.steps, recipe.schedule.patience, recipe.data.val_share) == (0, 0, 0)


def test_the_papers_losses_are_the_papers():
    family = {name: Recipe.read(name).encoder.family for name in ROWS}
    assert family["triplet"] == family["mc-dropout"] == "point"
    assert family["tripreg"] == family["bayes-gauss"] == "gaussian"
    assert family["bayes-vmf"] == "von-mises-fisher"
    loss = {name: Recipe.read(name).loss for name in ROWS}
    assert (loss["triplet"], loss["triplet"].name) == (loss["mc-dropout"], "triplet")
    assert loss["tripreg"].name == "triplet-regression"
    for name in ("bayes-gauss", "bayes-vmf"):
        assert (loss[name].name, loss[name].method) == ("bayesian", "clt")
        assert (loss[name].kl_scale, loss[name].prior_var, loss[name].floor) == (1e-6, None, 1e-8)
        assert not loss[name].centred
    assert loss["bayes-vmf"].sphere == "gaussian"
    gauss, tripreg = Recipe.read("bayes-gauss").encoder, Recipe.read("tripreg").encoder
    assert (gauss.unit_means, gauss.mean_scale) == (False, True)
    assert (tripreg.unit_means, tripreg.mean_scale) == (True, False)


@pytest.mark.parametrize(("backbone", "dim"), [("resnet50", 2048), ("densenet161", 2208)])
def test_an_encoder_of_the_paper_has_as_many_numbers_as_its_backbone_has_features(backbone, dim):
    keys = [f"encoder.backbone={backbone}.tv_in1k", "encoder.weights=none"]
    config = make_encoder(Recipe.read("bayes-gauss", keys)).config
    assert config.dim == dim - 1  # and a variance


def test_every_key_of_the_encoder_reaches_it():
    part = EncoderPart(
        backbone="tiny", weights="none", dim=9, family="gaussian", unit_pooling=False,
        unit_means=False, mean_scale=False, variance_layer_norm=False, head_dropout=0.3,
        initial_spread=0.9, size=24, resize="pad",
    )  # fmt: skip
    config = make_encoder(Recipe(encoder=part)).config
    for name in ("dim", "family", "unit_pooling", "unit_means", "mean_scale", "head_dropout"):
        assert getattr(config, name) == getattr(part, name)
    assert config.variance_layer_norm is False
    assert config.initial_var == pytest.approx(0.1)
    assert (config.preprocessing.size, config.preprocessing.resize) == (24, "pad")


def test_what_is_ours_differs_from_the_papers_rows_only_where_it_says_so():
    def changed(ours: str, row: str) -> set[str]:
        one, other = Recipe.read(ours).as_dict(), Recipe.read(row).as_dict()
        return {
            f"{table}.{key}"
            for table in one
            if isinstance(one[table], dict)
            for key in one[table]
            if one[table][key] != other[table][key]
        }

    added = {"encoder.unit_pooling", "encoder.variance_layer_norm", "encoder.unit_means"}
    added |= {"loss.floor", "schedule.patience", "data.val_share"}
    assert changed("bayes-gauss-unit", "bayes-gauss") == added
    assert changed("bayes-centred", "bayes-gauss-unit") == {"loss.centred", "loss.margin"}
    assert changed("bayes-vmf-exact", "bayes-vmf") == added | {"loss.sphere"}
    assert changed("mc-dropout-heads", "mc-dropout") == {"encoder.dropout", "encoder.head_dropout"}


@pytest.mark.parametrize("scale", ["cpu", "glyphs"])
@pytest.mark.parametrize("name", [*ROWS, *OURS])
def test_a_scale_changes_how_a_row_is_trained_not_what_it_is(name: str, scale: str):
    row, scaled = Recipe.read(name), Recipe.read(f"{name}+{scale}")
    assert scaled.loss == row.loss
    assert scaled.batch.kind == "balanced"
    for key in ("family", "unit_pooling", "unit_means", "mean_scale", "variance_layer_norm"):
        assert getattr(scaled.encoder, key) == getattr(row.encoder, key)


def test_a_file_can_extend_recipes_and_files_beside_it(tmp_path):
    write(tmp_path / "base.toml", 'extends = "triplet"\n[loss]\nmargin = 0.5')
    write(tmp_path / "top.toml", 'extends = ["base", "cpu"]\n[schedule]\nsteps = 3')
    recipe = Recipe.read(tmp_path / "top.toml")
    assert (recipe.loss.name, recipe.loss.margin) == ("triplet", 0.5)
    assert (recipe.encoder.backbone, recipe.schedule.steps) == ("mobilenetv2_100", 3)


def test_a_circle_of_recipes_is_refused(tmp_path):
    write(tmp_path / "one.toml", 'extends = "two"')
    write(tmp_path / "two.toml", 'extends = "one"')
    with pytest.raises(InvalidFile, match="extends itself"):
        Recipe.read(tmp_path / "one.toml")


def write(path, text: str):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        ("[loss]\nmargn = 0.1", "unknown key 'loss.margn'", "did you mean 'margin'?"),
        ("[los]\nmargin = 0.1", "unknown key 'los'", "did you mean 'loss'?"),
        ("loss = 3", "loss is a table", "[loss]"),
        ('[loss]\nname = "tripplet"', "loss.name", ""),
        ('[encoder]\ndim = "many"', "encoder.dim", ""),
        ("[schedule]\nsteps = 0", "schedule.steps: Input should be greater than 0, got 0", ""),
        ("[batch]\nchunk = -5", "batch.chunk", ""),
        ("[variance]\nheld_out = 1.5", "variance.held_out", ""),
        ('[encoder]\nfamily = "point"', "encoder.family", ""),
        ("not toml at all", "as TOML", ""),
    ],
)
def test_a_wrong_recipe_is_refused(tmp_path, text: str, problem: str, fix: str):
    with pytest.raises(InvalidFile) as caught:
        Recipe.read(write(tmp_path / "wrong.toml", text))
    assert problem in caught.value.problem
    assert fix in (caught.value.fix or "")


def test_single_keys_can_be_overridden(tmp_path):
    empty = write(tmp_path / "empty.toml", "")
    recipe = Recipe.read(empty, ["loss.margin=0.3", "encoder.backbone=tiny", "seed=7", 'optimiser.freeze_first=["a"]'])
    assert recipe.loss.margin == 0.3
    assert recipe.encoder.backbone == "tiny"
    assert recipe.seed == 7
    assert recipe.optimiser.freeze_first == ("a",)


def test_an_unknown_recipe_is_answered_with_the_nearest():
    with pytest.raises(InvalidFile, match="(?s)no recipe 'bayes-gaus'.*bayes-gauss"):
        Recipe.read("bayes-gaus")


@pytest.mark.parametrize("override", ["loss.margin", "=3", "seed.deep=3"])
def test_an_override_that_is_none_is_refused(tmp_path, override: str):
    with pytest.raises((InvalidArgument, InvalidFile)):
        Recipe.read(write(tmp_path / "seed.toml", "seed = 1"), [override])
