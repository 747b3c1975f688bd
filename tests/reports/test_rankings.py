"""Who searches whom, and an evaluation of embeddings against loops over all pairs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import surefind as sf
from surefind.images.catalog import Catalog
from surefind.reports.rankings import Embedded, evaluate_rankings, protocol_of

N, CLASSES, DIM = 60, 8, 6


def embedded(family: str = "gaussian", *, n: int = N, seed: int = 0, name: str = "own", **columns: tuple) -> Embedded:
    """Classes as clouds that overlap, some images less certain than others."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.arange(n) % CLASSES
    centres = torch.randn(CLASSES, DIM, generator=generator)
    var = 0.02 + 0.3 * torch.rand(n, generator=generator)
    mean = centres[codes] + (3 * var).sqrt()[:, None] * torch.randn(n, DIM, generator=generator)
    batch: sf.Embeddings = sf.Gaussians(mean, var)
    if family == "sphere":
        batch = sf.VonMisesFisher(torch.nn.functional.normalize(mean, dim=1), 1 / var)
    paths = tuple(f"{row:03d}.png" for row in range(n))
    columns = {"labels": tuple(f"class {code}" for code in codes)} | columns
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
    evaluation = evaluate_rankings(own)
    hits = hits_by_hand(own, DISTANCES[ranking], 10)
    found = evaluation.rankings[ranking]
    for k in (1, 5, 10):
        assert found.retrieval[f"R@{k}"].value == pytest.approx(hits[:, :k].any(axis=1).mean())
    matches = np.array([own.catalog.labels.count(label) - 1 for label in own.catalog.labels])
    precision = np.cumsum(hits[:, :5], axis=1) / np.arange(1, 6)
    by_hand = (precision * hits[:, :5]).sum(axis=1) / np.minimum(matches, 5)
    assert found.retrieval["mAP@5"].value == pytest.approx(by_hand.mean())
    np.testing.assert_array_equal(evaluation.queries.hits(ranking), hits)


def class_by_class(n: int, *, seed: int = 0, name: str = "own", scale: float = 1) -> Embedded:
    """Classes of ten: in half of them every first hit is right, in the other half chance rules."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.arange(n) // 10
    tight = (codes % 2 == 0)[:, None]
    centres = 30 * torch.randn(n, DIM, generator=generator)[codes]
    noise = torch.randn(n, DIM, generator=generator)
    mean = scale * torch.where(tight, centres, torch.zeros(n, DIM)) + noise
    catalog = Catalog(
        Path(name), tuple(f"{row:03d}.png" for row in range(n)), labels=tuple(f"class {code:02d}" for code in codes)
    )
    return Embedded(sf.Gaussians(mean, torch.full((n,), 0.1)), catalog)


def test_intervals_are_over_classes_where_there_are_labels():
    own = class_by_class(200)
    first = hits_by_hand(own, DISTANCES["means"], 1)[:, 0]
    of_class = torch.tensor(first.reshape(20, 10).mean(axis=1))
    (wanted,) = sf.metrics.bootstrap_means(of_class[:, None])  # classes are of one size
    found = evaluate_rankings(own, learned=False).rankings["means"].retrieval["R@1"]
    assert (found.value, found.low, found.high) == pytest.approx((wanted.value, wanted.low, wanted.high))
    by_query = sf.metrics.bootstrap_means(torch.tensor(first).double()[:, None])[0]
    assert found.high - found.low > 2 * (by_query.high - by_query.low)


def test_intervals_of_foreign_queries_are_over_classes_too():
    own, foreign = class_by_class(200), class_by_class(100, seed=1, name="foreign", scale=0.1)
    unlabelled = Embedded(foreign.embeddings, Catalog(foreign.catalog.root, foreign.catalog.paths))
    width = {}
    for name, queries in (("classes", foreign), ("queries", unlabelled)):
        signals = evaluate_rankings(own, queries, learned=False).rankings["means"].signals
        estimate = signals["nearest_distance"]["ood_auroc"]
        width[name] = estimate.high - estimate.low
    assert width["classes"] > 1.1 * width["queries"]


def test_queries_without_a_match_are_counted_apart_and_not_scored():
    labels = ("alone", "lonely", *(f"class {row % CLASSES}" for row in range(2, N)))
    evaluation = evaluate_rankings(embedded(labels=labels))
    (excluded,) = evaluation.exclusions
    assert (excluded.count, excluded.examples) == (2, ("000.png", "001.png"))
    assert "without a match" in excluded.reason
    table = evaluation.queries
    assert len(table) == N
    assert len(table.own()) == N - 2
    assert np.isnan(table["means.probability.query_var"][:2]).all()


def test_foreign_queries_are_separated_by_their_variance():
    foreign = embedded(n=30, seed=5, name="foreign")
    uncertain = Embedded(sf.Gaussians(foreign.embeddings.mean, foreign.embeddings.spread + 1), foreign.catalog)
    evaluation = evaluate_rankings(embedded(), uncertain)
    assert evaluation.rankings["means"].signals["query_var"]["ood_auroc"].value == 1.0
    assert evaluation.rankings["means"].signals["query_var"]["fpr95"].value == 0.0
    table = evaluation.queries
    assert table["foreign"].sum() == 30
    assert not table.hits("means")[table["foreign"]].any()


def test_what_is_not_defined_is_none_and_never_a_number():
    centres = 100 * torch.eye(CLASSES)[torch.arange(N) % CLASSES]
    centres = centres + torch.rand(centres.shape, generator=torch.Generator().manual_seed(0))
    own = embedded()
    perfect = Embedded(sf.Gaussians(centres, torch.full((N,), 0.1)), own.catalog)
    found = evaluate_rankings(perfect).rankings["means"]
    assert found.retrieval["R@1"].value == 1.0
    assert "auroc" not in found.signals["query_var"]
    assert "spearman" not in found.signals["query_var"]
    assert found.signals["query_var"]["aurc"].value == 0.0


def test_a_gallery_smaller_than_k_is_evaluated_and_few_neighbours_leave_map_at_r_out():
    evaluation = evaluate_rankings(embedded(n=4, labels=tuple("aabb")))
    assert evaluation.queries.hits("means").shape == (4, 3)
    assert evaluation.rankings["means"].retrieval["R@10"].value == 1.0
    assert "MAP@R" not in evaluate_rankings(embedded(), depth=3, ks=(1,)).rankings["means"].retrieval


def test_known_difficulty_is_compared_with_every_uncertainty():
    own = embedded(difficulty=tuple(float(row) for row in range(N)))
    known = sf.Gaussians(own.embeddings.mean, torch.linspace(0.1, 0.2, N))
    signals = evaluate_rankings(Embedded(known, own.catalog)).rankings["means"].signals
    assert signals["query_var"]["difficulty"].value == pytest.approx(1.0)
    assert abs(signals["nearest_distance"]["difficulty"].value) < 0.5
    unknown = evaluate_rankings(embedded()).rankings["means"]
    assert "difficulty" not in unknown.signals["query_var"]


def test_a_copy_of_a_query_is_not_in_the_gallery_that_it_searches():
    asks = tuple(row >= 40 for row in range(N))
    own = embedded(queries=asks)
    rows = [*range(N), *range(40, 60)]  # every query once more, to be searched
    catalog = Catalog(
        own.catalog.root,
        tuple(f"{number:03d}.png" for number in range(len(rows))),
        labels=tuple(own.catalog.labels[row] for row in rows),
        queries=(*asks, *[False] * 20),
    )
    evaluation = evaluate_rankings(Embedded(own.embeddings[rows], catalog))
    assert evaluation.rankings == evaluate_rankings(own).rankings
    assert evaluation.exclusions[0].count == 20


def test_equal_vectors_of_different_classes_are_mistakes_and_count():
    own = embedded()
    mean = own.embeddings.mean.clone()
    mean[1::2] = mean[0::2]  # of the next class
    found = evaluate_rankings(Embedded(sf.Gaussians(mean, own.embeddings.spread), own.catalog))
    assert found.exclusions == ()
    assert found.rankings["means"].retrieval["R@1"].value == 0


def test_a_model_that_gives_all_images_one_vector_is_one_clear_error():
    own = embedded()
    collapsed = Embedded(sf.Gaussians(torch.ones(N, DIM), own.embeddings.spread), own.catalog)
    with pytest.raises(sf.SurefindError, match="once 52 copies of other images are left out"):
        evaluate_rankings(collapsed)


def catalog(n: int = 6, **columns: tuple) -> Catalog:
    return Catalog(Path("photos"), tuple(f"{row}.png" for row in range(n)), **columns)


def test_without_queries_each_image_searches_all_others():
    protocol = protocol_of(catalog(labels=("a", "a", "a", "b", "b", "c")))
    assert protocol.queries.tolist() == protocol.gallery.tolist() == list(range(6))
    assert protocol.itself.tolist() == list(range(6))
    assert protocol.n_matches.tolist() == [2, 2, 2, 1, 1, 0]
    assert "each of 6 images searches all the others" in protocol.description


def test_named_queries_search_only_the_rest():
    queries = (True, False, False, True, False, False)
    protocol = protocol_of(catalog(labels=("a", "a", "a", "b", "b", "c"), queries=queries))
    assert protocol.queries.tolist() == [0, 3]
    assert protocol.gallery.tolist() == [1, 2, 4, 5]
    assert protocol.itself is None
    assert protocol.n_matches.tolist() == [2, 1]
    hits = protocol.hits(np.array([[0, 2], [2, 3]]))
    assert hits.tolist() == [[True, False], [True, False]]


def test_places_match_within_the_radius():
    positions = ((0.0, 0.0), (0.0, 20.0), (0.0, 40.0), (500.0, 0.0), (501.0, 0.0), (900.0, 0.0))
    assert protocol_of(catalog(positions=positions)).n_matches.tolist() == [1, 2, 1, 1, 1, 0]
    wide = protocol_of(catalog(positions=positions), radius=50)
    assert wide.n_matches.tolist() == [2, 2, 2, 1, 1, 0]
    assert "within 50 m" in wide.description


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"labels": tuple("abcdef")}, "no two images share one"),
        (
            {"labels": tuple("aabbcc"), "queries": (True, True, False, False, False, False)},
            "queries and gallery have none in common",
        ),
        ({"positions": tuple((1000.0 * row, 0.0) for row in range(6))}, "larger --radius"),
        ({"labels": tuple("aaaaaa"), "queries": (True,) * 6}, "two images to search"),
        ({"labels": tuple("aaaaaa"), "queries": (False,) * 6}, "at least one query"),
    ],
)
def test_data_without_a_single_match_is_refused(columns: dict, match: str):
    with pytest.raises(sf.SurefindError, match=match):
        protocol_of(catalog(**columns))
