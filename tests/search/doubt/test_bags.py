"""Which classes a head learns from, and which triplets."""

import pytest
import torch

from surefind.search.doubt.bags import halve_classes
from surefind.search.doubt.triplets import MATCHES, OTHERS, hard_triplets


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


def test_halvings_differ():
    sees = halve_classes(torch.full((20,), 3), 8, generator=generator())
    assert len({tuple(column) for column in sees.T.tolist()}) == 8


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
    monkeypatch.setattr("surefind.search.doubt.triplets.MOST", 24)
    pool = hard_triplets(MEANS, CODES, ROWS, generator=generator())
    assert len(pool.anchors) == 24 and set(pool.anchors.tolist()) <= set(ROWS.tolist())
    assert sorted(CODES[pool.anchors].bincount().tolist()) == [2] * 8 + [4] * 2
