"""Variance learned for fixed vectors."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor

from surefind.confidence.variance_heads import MATCHES, OTHERS, Fitted, fit_variance_heads, halve_classes, hard_triplets
from surefind.embeddings import Gaussians
from surefind.errors import InvalidArgument

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


def test_noisier_vectors_of_unseen_classes_have_larger_variance(fitted: Fitted):
    new = noisy_classes(12, 12, seed=1)
    assert spearmanr(fitted.heads.var(new.vectors), new.noise).statistic > 0.5
    assert spearmanr(fitted.log_var, DATA.noise).statistic > 0.5  # by heads that never saw a class


def test_it_is_the_labels_that_teach_which_vectors_are_vague():
    order = torch.randperm(len(DATA.labels), generator=torch.Generator().manual_seed(0))
    nonsense = fit_variance_heads(DATA.vectors, [DATA.labels[row] for row in order], steps=150)
    new = noisy_classes(12, 12, seed=1)
    assert spearmanr(nonsense.heads.var(new.vectors), new.noise).statistic < 0.2


@torch.no_grad()
def test_the_same_seed_gives_the_same_heads_and_the_callers_chance_is_left_alone():
    before = torch.random.get_rng_state()
    first, again, other = (fit_variance_heads(DATA.vectors, DATA.labels, steps=5, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(before, torch.random.get_rng_state())
    assert not any(parameter.requires_grad for parameter in first.heads.parameters())
    assert torch.equal(first.log_var, again.log_var)
    assert not torch.equal(first.log_var, other.log_var)


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


def test_a_shift_changes_nothing_and_a_scale_only_the_unit():
    plain = fit_variance_heads(DATA.vectors, DATA.labels, steps=20)
    moved = fit_variance_heads(100 * DATA.vectors + 7, DATA.labels, steps=20)
    assert torch.allclose(moved.log_var - 2 * np.log(100), plain.log_var, atol=0.05)


def test_tiny_vectors_have_variances_that_embeddings_can_hold():
    fit = fit_variance_heads(1e-6 * DATA.vectors, DATA.labels, steps=2)
    Gaussians(DATA.vectors, fit.log_var.exp())
    Gaussians(DATA.vectors, fit.heads.var(1e-6 * DATA.vectors))


def test_one_dimension_constant_columns_and_single_vectors_are_no_trouble():
    line = DATA.vectors[:, 1:2]
    padded = torch.cat([line, torch.zeros_like(line)], dim=1)
    labels = [*DATA.labels[:-5], *(f"alone {i}" for i in range(5))]
    assert fit_variance_heads(padded, labels, steps=5).log_var.isfinite().all()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b", "c"] * 64, "at least 4 classes .* got 3 of 3 classes"),
        (range(192), "at least 4 classes .* got 0 of 192 classes"),
    ],
)
def test_too_few_classes_with_pairs_are_refused(labels, message):
    with pytest.raises(InvalidArgument, match=message):
        fit_variance_heads(DATA.vectors, labels)


# which classes a head learns from, and which triplets


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("classes", [4, 7, 20])
def test_every_class_is_unseen_by_exactly_half_of_the_heads(classes: int):
    sees = halve_classes(torch.full((classes,), 3), 8, generator=generator())
    assert sees.shape == (classes, 8)
    assert (sees.sum(dim=1) == 4).all()
    assert (sees[:, 0::2] != sees[:, 1::2]).all()  # one of each two heads


def test_each_head_gets_half_of_the_classes_with_pairs():
    sizes = torch.tensor([1, 1, 1, 2, 5, 2, 9, 1, 1, 1])
    sees = halve_classes(sizes, 6, generator=generator())
    assert (sees[sizes > 1].sum(dim=0) == 2).all()
    assert (sees[sizes == 1].sum(dim=0) == 3).all()


MEANS = torch.randn(120, 3, generator=generator())
CODES = torch.arange(120) % 10
ROWS = torch.arange(20, 120)


def test_triplets_are_among_the_nearest_by_a_plain_loop():
    pool = hard_triplets(MEANS, CODES, ROWS, generator=generator())
    drawn = pool.draw(3000, generator())
    allowed = {}
    for row in ROWS.tolist():
        near = sorted(ROWS.tolist(), key=lambda x: float((MEANS[x] - MEANS[row]).square().sum()))
        same = [x for x in near if CODES[x] == CODES[row] and x != row]
        other = [x for x in near if CODES[x] != CODES[row]]
        allowed[row] = set(same[:MATCHES]), set(other[:OTHERS])
    for anchor, match, other in drawn.T.tolist():
        assert match in allowed[anchor][0] and other in allowed[anchor][1]
    assert set(drawn[0].tolist()) == set(ROWS.tolist())


def test_a_class_of_one_is_never_an_anchor_and_two_have_one_match():
    codes = torch.tensor([0, 1, 1, 2, 2, 2])
    pool = hard_triplets(MEANS[:6], codes, torch.arange(6), generator=generator())
    assert pool.anchors.tolist() == [1, 2, 3, 4, 5]
    assert pool.found.tolist() == [1, 1, 2, 2, 2]
    anchor, match, other = pool.draw(500, generator())
    assert (codes[anchor] == codes[match]).all() and (anchor != match).all()
    assert (codes[anchor] != codes[other]).all()


def test_too_many_vectors_are_thinned_to_pairs_of_all_classes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("surefind.confidence.variance_heads.MOST", 24)
    pool = hard_triplets(MEANS, CODES, ROWS, generator=generator())
    assert len(pool.anchors) == 24 and set(pool.anchors.tolist()) <= set(ROWS.tolist())
    assert sorted(CODES[pool.anchors].bincount().tolist()) == [2] * 8 + [4] * 2
