"""A judgement of embeddings, against loops over all pairs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import surefind as sf
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog
from surefind.reports.encoded import Embedded
from surefind.reports.judge import judge

N, CLASSES, DIM = 60, 8, 6


def embedded(
    family: str = "gaussian", *, n: int = N, seed: int = 0, name: str = "own", **columns: tuple
) -> Embedded:
    """Classes as clouds that overlap, some images vaguer than others."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.arange(n) % CLASSES
    centres = torch.randn(CLASSES, DIM, generator=generator)
    var = 0.02 + 0.3 * torch.rand(n, generator=generator)
    mean = centres[codes] + (3 * var).sqrt()[:, None] * torch.randn(n, DIM, generator=generator)
    batch: sf.Embeddings = sf.Gaussians(mean, var)
    if family == "sphere":
        batch = sf.VonMisesFisher(torch.nn.functional.normalize(mean, dim=1), 1 / var)
    paths = tuple(f"{row:03d}.png" for row in range(n))
    columns = columns or {"labels": tuple(f"class {code}" for code in codes)}
    return Embedded(batch, Catalog(Path(name), paths, **columns))


def hits_by_hand(own: Embedded, distance: Callable, k: int) -> np.ndarray:
    between = distance(own.embeddings, own.embeddings)
    labels = own.catalog.labels
    rows = []
    for query in range(len(own.catalog)):
        others = [other for other in range(len(own.catalog)) if other != query]
        others.sort(key=lambda other: float(between[query, other]))
        rows.append([labels[other] == labels[query] for other in others[:k]])
    return np.array(rows)


DISTANCES = {
    "means": lambda q, x: sf.functional.squared_distances(q.mean, x.mean),
    "expected": sf.functional.expected_distance,
}


@pytest.mark.parametrize("family", ["gaussian", "sphere"])
@pytest.mark.parametrize("ranking", ["means", "expected"])
def test_recall_and_mean_average_precision_are_those_of_a_plain_loop(family: str, ranking: str):
    own = embedded(family)
    judgement = judge(own)
    hits = hits_by_hand(own, DISTANCES[ranking], 10)
    found = judgement.rankings[ranking]
    for k in (1, 5, 10):
        assert found.recall[str(k)].value == pytest.approx(hits[:, :k].any(axis=1).mean())
    matches = np.array([own.catalog.labels.count(label) - 1 for label in own.catalog.labels])
    precision = np.cumsum(hits[:, :5], axis=1) / np.arange(1, 6)
    by_hand = (precision * hits[:, :5]).sum(axis=1) / np.minimum(matches, 5)
    assert found.mean_ap["5"].value == pytest.approx(by_hand.mean())
    np.testing.assert_array_equal(judgement.queries.hits(ranking), hits)


def test_every_interval_holds_its_value():
    for ranking in judge(embedded()).rankings.values():
        for estimate in (*ranking.recall.values(), *ranking.mean_ap.values(), ranking.map_at_r):
            assert estimate.low <= estimate.value <= estimate.high
        for signal in ranking.signals.values():
            assert signal.auroc.low < signal.auroc.value < signal.auroc.high


def test_named_queries_and_gallery_are_kept_apart():
    queries = tuple(row < 20 for row in range(N))
    labels = tuple(f"class {row % CLASSES}" for row in range(N))
    judgement = judge(embedded(labels=labels, queries=queries))
    assert len(judgement.queries) == 20
    assert not set(judgement.queries["means.hit_1"]) & {f"{row:03d}.png" for row in range(20)}


def test_places_are_judged_by_their_distance():
    positions = tuple((100.0 * (row % CLASSES), 0.0) for row in range(N))
    labels = tuple(f"class {row % CLASSES}" for row in range(N))
    by_place, by_label = judge(embedded(positions=positions)), judge(embedded(labels=labels))
    np.testing.assert_array_equal(by_place.queries.hits("means"), by_label.queries.hits("means"))
    assert by_place.rankings["means"].recall == by_label.rankings["means"].recall


def test_queries_without_a_match_are_counted_apart_and_not_scored():
    labels = ("alone", "lonely", *(f"class {row % CLASSES}" for row in range(2, N)))
    judgement = judge(embedded(labels=labels))
    (excluded,) = judgement.exclusions
    assert (excluded.count, excluded.examples) == (2, ("000.png", "001.png"))
    assert "without a match" in excluded.reason
    table = judgement.queries
    assert len(table) == N
    assert len(table.own()) == N - 2
    assert np.isnan(table["means.probability.query_var"][:2]).all()


def test_foreign_queries_are_told_by_their_variance():
    foreign = embedded(n=30, seed=5, name="foreign")
    vague = Embedded(
        sf.Gaussians(foreign.embeddings.mean, foreign.embeddings.spread + 1), foreign.catalog
    )
    judgement = judge(embedded(), vague)
    assert judgement.rankings["means"].signals["query_var"].ood.auroc.value == 1.0
    assert judgement.rankings["means"].signals["query_var"].ood.fpr95.value == 0.0
    table = judgement.queries
    assert table["foreign"].sum() == 30
    assert not table.hits("means")[table["foreign"]].any()


def test_points_have_one_ranking_and_no_calibration_by_variance():
    judgement = judge(embedded(), learned=False)
    assert list(judgement.rankings) == ["means"]
    assert judgement.rankings["means"].ece == {}
    assert list(judgement.rankings["means"].signals) == [
        "nearest_distance",
        "ratio_1_2",
        "ratio_1_10",
    ]


def test_what_is_not_defined_is_none_and_never_a_number():
    centres = 100 * torch.eye(CLASSES)[torch.arange(N) % CLASSES]
    own = embedded()
    perfect = Embedded(sf.Gaussians(centres, torch.full((N,), 0.1)), own.catalog)
    found = judge(perfect).rankings["means"]
    assert found.recall["1"].value == 1.0
    assert found.signals["query_var"].auroc is None
    assert found.signals["query_var"].spearman is None
    assert found.signals["query_var"].aurc.value == 0.0


def test_a_tiny_gallery_is_judged_as_far_as_it_goes():
    labels = tuple("aabb")
    judgement = judge(embedded(n=4, labels=labels))
    assert judgement.queries.hits("means").shape == (4, 3)
    assert judgement.rankings["means"].recall["10"].value == 1.0


def test_more_matches_than_neighbours_leave_map_at_r_out():
    assert judge(embedded(), depth=3, ks=(1,)).rankings["means"].map_at_r is None


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda own: (Embedded(own.embeddings[:5], own.catalog), None), "own: expected 60"),
        (lambda own: (own, embedded("sphere", name="foreign")), "embeddings of one family"),
    ],
)
def test_embeddings_that_do_not_fit_are_refused(change: Callable, match: str):
    with pytest.raises(InvalidArgument, match=match):
        judge(*change(embedded()))


def test_an_impossible_k_is_refused():
    with pytest.raises(InvalidArgument, match="ks: expected numbers from 1 on"):
        judge(embedded(), ks=(0, 5))


def test_known_difficulty_is_compared_with_every_uncertainty():
    labels = tuple(f"class {row % CLASSES}" for row in range(N))
    own = embedded(labels=labels, difficulty=tuple(float(row) for row in range(N)))
    known = sf.Gaussians(own.embeddings.mean, torch.linspace(0.1, 0.2, N))
    signals = judge(Embedded(known, own.catalog)).rankings["means"].signals
    assert signals["query_var"].difficulty.value == pytest.approx(1.0)
    assert abs(signals["nearest_distance"].difficulty.value) < 0.5
    assert judge(embedded()).rankings["means"].signals["query_var"].difficulty is None
