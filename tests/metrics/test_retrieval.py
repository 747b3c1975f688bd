"""Recall, precision and average precision against plain loops."""

import pytest
import torch
from sklearn.metrics import average_precision_score

import surefind as sf
from surefind.metrics import (
    average_precision_at_k,
    average_precision_at_r,
    hit_at_k,
    precision_at_k,
    retrieval,
    retrieval_report,
)


def rankings(neighbours: int, extra: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Hits of 40 queries, and matches of which up to `extra` were not fetched."""
    generator = torch.Generator().manual_seed(neighbours)
    hits = torch.rand(40, neighbours, generator=generator) < 0.3
    missed = torch.randint(extra + 1, (40,), generator=generator)
    return hits, (hits.sum(1) + missed).clamp(min=1)


def loop_average_precision(hits: list[bool], divisor: int, k: int) -> float:
    found, total = 0, 0.0
    for i, hit in enumerate(hits[:k], start=1):
        if hit:
            found += 1
            total += found / i
    return total / divisor


@pytest.mark.parametrize("neighbours", [1, 5, 12])
@pytest.mark.parametrize("k", [1, 3, 12, 100])
def test_values_at_k_agree_with_a_plain_loop(neighbours: int, k: int):
    hits, n_matches = rankings(neighbours, extra=4)
    for row, matches, hit, precision, average in zip(
        hits.tolist(), n_matches.tolist(), hit_at_k(hits, k).tolist(),
        precision_at_k(hits, k).tolist(), average_precision_at_k(hits, n_matches, k).tolist(),
        strict=True,
    ):  # fmt: skip
        assert hit == float(any(row[:k]))
        assert precision == pytest.approx(sum(row[:k]) / k)
        assert average == pytest.approx(loop_average_precision(row, min(matches, k), k))


def test_average_precision_of_a_whole_gallery_is_that_of_scikit_learn():
    hits, n_matches = rankings(12)
    keep = hits.any(dim=1)
    wanted = [average_precision_score(row, torch.arange(12, 0, -1)) for row in hits[keep].numpy()]
    ours = average_precision_at_k(hits[keep], n_matches[keep], 12)
    assert ours.dtype == torch.float64 and ours.tolist() == pytest.approx(wanted)


def test_average_precision_at_r_agrees_with_a_plain_loop():
    hits, n_matches = rankings(30, extra=4)
    wanted = [loop_average_precision(row, r, r) for row, r in zip(hits.tolist(), n_matches.tolist(), strict=True)]
    assert average_precision_at_r(hits, n_matches).tolist() == pytest.approx(wanted)


def loop_report(points: torch.Tensor, labels: list[str], k: int) -> dict[str, float]:
    """The report from a sort of all distances, query by query."""
    rows = []
    for i, label in enumerate(labels):
        away = (points - points[i]).square().sum(1).tolist()
        others = sorted((away[j], j) for j in range(len(labels)) if j != i)
        hits = [labels[j] == label for _, j in others]
        if r := sum(hits):
            at_k = loop_average_precision(hits, min(r, k), k)
            rows.append((float(any(hits[:k])), at_k, loop_average_precision(hits, r, r)))
    means = torch.tensor(rows, dtype=torch.float64).mean(0).tolist()
    return {f"R@{k}": means[0], f"mAP@{k}": means[1], "MAP@R": means[2], "queries": len(rows)}


@pytest.mark.parametrize("k", [1, 4, 100])
def test_a_report_agrees_with_a_plain_loop(k: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(retrieval, "BLOCK", 100)  # a few queries at once
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    labels = [f"class {int(i)}" for i in torch.randint(6, (39,), generator=generator)] + ["alone"]
    wanted = loop_report(points, labels, k)
    for embeddings in (points, points.numpy(), points.tolist(), sf.Gaussians(points, [1.0] * 40)):
        assert retrieval_report(embeddings, labels, k=k) == pytest.approx(wanted)


def test_a_report_may_have_several_k():
    names = retrieval_report([[0.0], [1.0], [2.0]], [0, 0, 1], k=(1, 2)).keys()
    assert [*names] == ["R@1", "R@2", "mAP@1", "mAP@2", "MAP@R", "queries"]


@pytest.mark.parametrize(
    ("embeddings", "labels", "message"),
    [
        ([[0.0], [1.0]], [0, 1], "labels: expected two images of one class"),
        ([[0.0], [float("nan")]], [0, 0], "embeddings: expected finite numbers"),
        ([[0.0], [1.0]], [0], "labels: expected 2 values"),
        ([0.0, 1.0], [0, 0], r"embeddings: expected shape \(N, D\)"),
    ],
)
def test_a_report_of_what_cannot_be_searched_is_refused(embeddings, labels, message: str):
    with pytest.raises(sf.InvalidArgument, match=message):
        retrieval_report(embeddings, labels)


@pytest.mark.parametrize(
    ("n_matches", "got"),
    [
        (torch.tensor([1, 0]), "1 queries without a match"),
        (torch.tensor([1, 1]), "more hits than matches"),
        (torch.tensor([1.0, 2.0]), "float32"),
        ([2], r"2 values, one per row, got shape \(1,\)"),
        (["a", "b"], "list"),
    ],
)
def test_counts_of_matches_that_cannot_be_are_refused(n_matches: object, got: str):
    hits = torch.tensor([[True, False], [True, True]])
    for function in (lambda *x: average_precision_at_k(*x, 2), average_precision_at_r):
        with pytest.raises(sf.InvalidArgument, match=f"n_matches: .*{got}"):
            function(hits, n_matches)


@pytest.mark.parametrize(
    "hits", [torch.zeros(0, 3).bool(), torch.zeros(3, 0).bool(), torch.zeros(3).bool(), torch.ones(2, 2)]
)
def test_hits_that_cannot_be_are_refused(hits: torch.Tensor):
    with pytest.raises(sf.InvalidArgument, match="hits: expected"):
        hit_at_k(hits, 1)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "1"])
def test_k_that_cannot_be_is_refused(k: object):
    hits, n_matches = rankings(3)
    for function in (hit_at_k, precision_at_k, lambda h, k: average_precision_at_k(h, n_matches, k)):
        with pytest.raises(sf.InvalidArgument, match="k: expected a whole number of at least 1"):
            function(hits, k)


def test_too_few_neighbours_for_r_are_refused():
    with pytest.raises(sf.InvalidArgument, match="hits: expected at least 3 neighbours"):
        average_precision_at_r(torch.tensor([[True, False]]), torch.tensor([3]))
