"""Doubt learned on fixed vectors."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor

from surefind.embeddings import Gaussians
from surefind.errors import InvalidArgument
from surefind.search.doubt import Fitted, fit_variance_heads
from surefind.search.doubt.checking import class_codes

STEPS = 40


class Noisy(NamedTuple):
    vectors: Tensor
    labels: list[str]
    noise: Tensor


def noisy_classes(classes: int, size: int, *, seed: int) -> Noisy:
    """Each vector strays from its class as far as its first coordinate says."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, 8, generator=generator).repeat_interleave(size, dim=0)
    noise = 0.2 * 8 ** torch.rand(classes * size, generator=generator)
    strayed = centres + noise[:, None] * torch.randn(classes * size, 8, generator=generator)
    labels = [f"class {row // size}" for row in range(classes * size)]
    return Noisy(torch.cat([noise.log()[:, None], strayed], dim=1), labels, noise)


DATA = noisy_classes(24, 8, seed=0)


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    return fit_variance_heads(DATA.vectors, DATA.labels, steps=150)


def test_noisier_vectors_of_unseen_classes_are_vaguer(fitted: Fitted):
    new = noisy_classes(12, 12, seed=1)
    assert spearmanr(fitted.heads.var(new.vectors), new.noise).statistic > 0.5


def test_noisier_vectors_are_vaguer_to_heads_that_never_saw_their_class(fitted: Fitted):
    assert spearmanr(fitted.log_var, DATA.noise).statistic > 0.5


def test_it_is_the_labels_that_teach_which_vectors_are_vague():
    order = torch.randperm(len(DATA.labels), generator=torch.Generator().manual_seed(0))
    nonsense = fit_variance_heads(DATA.vectors, [DATA.labels[row] for row in order], steps=150)
    new = noisy_classes(12, 12, seed=1)
    assert spearmanr(nonsense.heads.var(new.vectors), new.noise).statistic < 0.2


def test_heads_disagree_more_about_vectors_unlike_all_they_saw(fitted: Fitted):
    new = noisy_classes(12, 12, seed=1).vectors
    foreign = new + 8 * torch.randn(1, new.shape[1], generator=torch.Generator().manual_seed(2))
    assert fitted.heads.disagreement(foreign).median() > fitted.heads.disagreement(new).median()


def test_there_is_one_value_per_vector_and_they_are_finite(fitted: Fitted):
    for values in (fitted.log_var, fitted.disagreement):
        assert values.shape == (len(DATA.labels),)
        assert values.isfinite().all()
    assert (fitted.disagreement > 0).all()


def test_vectors_are_not_changed():
    vectors = DATA.vectors.clone()
    fit_variance_heads(vectors, DATA.labels, steps=2)
    assert torch.equal(vectors, DATA.vectors)


def test_the_same_seed_gives_the_same_heads():
    first, again, other = (
        fit_variance_heads(DATA.vectors, DATA.labels, steps=5, seed=seed) for seed in (3, 3, 4)
    )
    assert torch.equal(first.log_var, again.log_var)
    assert torch.equal(first.disagreement, again.disagreement)
    assert not torch.equal(first.log_var, other.log_var)


def test_fitting_leaves_the_callers_chance_alone():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    fit_variance_heads(DATA.vectors, DATA.labels, steps=2)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_vectors_value_comes_only_from_heads_that_never_saw_its_class():
    """Labels of two classes are mixed: only heads that learn from either can notice."""
    mixed = list(DATA.labels)
    mixed[0:16:2] = ["class 1" if label == "class 0" else "class 0" for label in mixed[0:16:2]]
    plain = fit_variance_heads(DATA.vectors, DATA.labels, steps=STEPS)
    other = fit_variance_heads(DATA.vectors, mixed, steps=STEPS)
    before, after = plain.heads(DATA.vectors), other.heads(DATA.vectors)
    noticed = (before != after).any(dim=0)
    # Seed 0 puts the two into one half in some halvings and into different ones in others.
    pairs = noticed.view(4, 2).sum(dim=1)
    assert set(pairs.tolist()) == {1, 2}
    # The value of a vector of class 0 is the mean over four heads, one from each halving, and
    # where one of the two heads noticed, it is the other one.
    first = before[0].view(4, 2)
    sure = first[pairs == 1][~noticed.view(4, 2)[pairs == 1]].sum()
    open_pairs = first[pairs == 2]
    means = [
        (sure + sum(pair[i] for pair, i in zip(open_pairs, chosen, strict=True))) / 4
        for chosen in product((0, 1), repeat=len(open_pairs))
    ]
    assert any(torch.isclose(plain.log_var[0], mean, atol=1e-6) for mean in means)


def test_a_foreign_dtype_and_tensor_labels_are_taken():
    fit = fit_variance_heads(DATA.vectors.double(), class_codes(DATA.labels), steps=2)
    same = fit_variance_heads(DATA.vectors, class_codes(DATA.labels).numpy(), steps=2)
    assert torch.allclose(fit.log_var, same.log_var)


def test_a_shift_changes_nothing_and_a_scale_only_the_unit():
    plain = fit_variance_heads(DATA.vectors, DATA.labels, steps=20)
    moved = fit_variance_heads(100 * DATA.vectors + 7, DATA.labels, steps=20)
    assert torch.allclose(moved.log_var - 2 * np.log(100), plain.log_var, atol=0.05)


def test_tiny_vectors_have_variances_that_embeddings_can_hold():
    fit = fit_variance_heads(1e-6 * DATA.vectors, DATA.labels, steps=2)
    Gaussians(DATA.vectors, fit.log_var.exp())
    Gaussians(DATA.vectors, fit.heads.var(1e-6 * DATA.vectors))


def test_progress_is_told_every_step():
    told: list[int] = []
    fit_variance_heads(DATA.vectors, DATA.labels, steps=3, progress=told.append)
    assert told == [1, 2, 3]


def test_a_caller_without_gradients_can_fit():
    with torch.no_grad():
        fit = fit_variance_heads(DATA.vectors, DATA.labels, steps=2)
    assert not any(parameter.requires_grad for parameter in fit.heads.parameters())


def test_the_fewest_vectors_that_are_taken_are_enough():
    few = noisy_classes(4, 5, seed=0)
    assert fit_variance_heads(few.vectors, few.labels, steps=5).log_var.isfinite().all()


def test_one_dimension_constant_columns_and_single_vectors_are_no_trouble():
    line = DATA.vectors[:, 1:2]
    padded = torch.cat([line, torch.zeros_like(line)], dim=1)
    labels = [*DATA.labels[:-5], *(f"alone {i}" for i in range(5))]
    assert fit_variance_heads(padded, labels, steps=5).log_var.isfinite().all()


def test_many_vectors_are_thinned(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("surefind.search.doubt.triplets.MOST", 40)
    monkeypatch.setattr("surefind.search.doubt.directions.ENOUGH", 50)
    fit = fit_variance_heads(DATA.vectors, DATA.labels, steps=100)
    assert spearmanr(fit.log_var, DATA.noise).statistic > 0.3


VECTORS, LABELS = DATA.vectors, DATA.labels


@pytest.mark.parametrize(
    ("vectors", "labels", "options", "message"),
    [
        (VECTORS, LABELS[:-1], {}, "expected 192, one per vector, got 191"),
        (VECTORS, [*LABELS[:-2], "", None], {}, "got 2 of 192 without one"),
        (VECTORS, [float("nan")] * 192, {}, "got 192 of 192 without one"),
        (VECTORS[:19], LABELS[:19], {}, "at least 20 labelled vectors, got 19"),
        (VECTORS[:24], LABELS[:24], {}, "at least 4 classes .* got 3 of 3 classes"),
        (VECTORS, range(192), {}, "at least 4 classes .* got 0 of 192 classes"),
        (VECTORS / 0 * 0, LABELS, {}, "got 192 of 192 rows with others"),
        (VECTORS * 1e9, LABELS, {}, "finite numbers of at most 1e\\+06"),
        (VECTORS[0], LABELS, {}, "a floating-point tensor \\(N, D\\), got torch.float32 \\(9,\\)"),
        (VECTORS.int(), LABELS, {}, "a floating-point tensor .* got torch.int32"),
        (VECTORS.numpy(), LABELS, {}, "a floating-point tensor .* got ndarray"),
        (torch.ones(192, 3), LABELS, {}, "vectors that differ, got the same one 192 times"),
        (VECTORS, LABELS, {"heads": 7}, "an even number of at least 4, got 7"),
        (VECTORS, LABELS, {"heads": 2}, "an even number of at least 4, got 2"),
        (VECTORS, LABELS, {"steps": 0}, "a whole number of at least 1, got 0"),
    ],
)
def test_what_cannot_be_fitted_to_is_refused(vectors, labels, options, message):
    with pytest.raises(InvalidArgument, match=message):
        fit_variance_heads(vectors, labels, **options)
