"""Labelled queries searched in an index, against plain loops."""

import numpy as np
import pytest
from brute_force import brute_force_neighbourhood
from clusters import SPACE, cluster_engine, clusters, gaussians
from galleries import random_embeddings
from stores import made

import surefind as sf
from surefind.confidence import labelled_queries
from surefind.confidence import neighbours as copies_module
from surefind.confidence.calibrate import embedded_queries, own_queries
from surefind.confidence.evidence import Neighbourhood
from surefind.confidence.labelled_queries import (
    RADIUS,
    LabelledQueries,
    QueryVariance,
    checked_gallery,
    classes_of,
    collect_calibration_data,
    matching,
    queries_with_match,
)
from surefind.confidence.neighbours import LocalDensity
from surefind.engines.base import Rows

GALLERY, LABELS = clusters(classes=12, per_class=6, seed=1)


@pytest.fixture
def engine(tmp_path):
    return cluster_engine(tmp_path / "store", GALLERY, LABELS)


def ask(engine, queries: LabelledQueries, **options):
    around = LocalDensity.of(engine)
    query_variance = QueryVariance(None, np.zeros(len(queries.facts)))
    gallery = checked_gallery(engine)
    return collect_calibration_data(engine, queries, around, query_variance=query_variance, gallery=gallery, **options)


def ask_all(engine):
    return ask(engine, own_queries(engine))


def assert_same_neighbourhood(found: Neighbourhood, wanted: Neighbourhood) -> None:
    """But for the digits that float32 loses among neighbours so far from each other."""
    for name in Neighbourhood._fields:
        its, true = getattr(found, name), getattr(wanted, name)
        assert its == pytest.approx(true, rel=1e-5, abs=1e-6 * np.abs(true).max()), name


def test_a_row_of_the_index_is_searched_as_if_it_were_not_there(engine):
    found = ask_all(engine)
    expected = brute_force_neighbourhood(GALLERY, GALLERY, self_rows=range(len(LABELS)))
    assert_same_neighbourhood(found.neighbourhood, expected.neighbourhood)
    wanted = [[LABELS[x] == LABELS[row] for x in own] for row, own in enumerate(expected.hits)]
    assert found.match.tolist() == wanted
    assert found.has_match.all()


def test_a_query_from_elsewhere_sees_all_rows(engine):
    query, labels = clusters(classes=12, per_class=6, seed=2)
    found = ask(engine, embedded_queries(query, labels))
    expected = brute_force_neighbourhood(GALLERY, query)
    assert_same_neighbourhood(found.neighbourhood, expected.neighbourhood)
    wanted = [[LABELS[x] == labels[row] for x in own] for row, own in enumerate(expected.hits)]
    assert found.match.tolist() == wanted


def test_rows_of_the_index_and_others_may_be_searched_together(engine):
    own, query = own_queries(engine), clusters(classes=12, per_class=6, seed=2)[0]
    mixed = LabelledQueries(
        sf.Gaussians.cat([own.embeddings[:3], query[:2]]),
        [{"label": "class 0"}] * 5,
        [*own.self_ids[:3], "", ""],
        np.zeros(5, np.int64),
    )
    found = ask(engine, mixed).neighbourhood
    assert_same_neighbourhood(
        found.at(np.arange(3)), brute_force_neighbourhood(GALLERY, GALLERY[:3], self_rows=range(3)).neighbourhood
    )
    assert_same_neighbourhood(found.at(np.arange(3, 5)), brute_force_neighbourhood(GALLERY, query[:2]).neighbourhood)


def test_many_queries_are_searched_in_batches(engine, monkeypatch):
    whole = ask_all(engine)
    monkeypatch.setattr(labelled_queries, "QUERIES_AT_ONCE", 25)
    told: list[int] = []
    parts = ask(engine, own_queries(engine), progress=told.append)
    assert told == [25, 50, 72]
    assert_same_neighbourhood(parts.neighbourhood, whole.neighbourhood)
    assert np.array_equal(parts.match, whole.match)


def test_a_class_that_the_gallery_lacks_has_no_match(engine):
    labels = [f"class {n % 14}" for n in range(70)]  # 12 and 13 are not in the gallery
    found = ask(engine, embedded_queries(random_embeddings(70, SPACE.dim, 3), labels))
    assert found.has_match.tolist() == [label not in ("class 12", "class 13") for label in labels]
    assert not found.match[~found.has_match].any()


@pytest.mark.parametrize("copies", [1, 22])  # 22: more than are fetched at first
def test_a_query_is_searched_as_if_none_of_its_copies_were_there(tmp_path, copies):
    again = [row for row in range(0, 15, 3) for _ in range(copies)]
    rows = [*range(72), *again]
    gallery, labels = GALLERY[rows], [LABELS[row] for row in rows]
    engine = cluster_engine(tmp_path / "store", gallery, labels)
    found = ask_all(engine)
    expected = brute_force_neighbourhood(gallery, gallery, self_rows=range(len(rows)))
    assert_same_neighbourhood(found.neighbourhood, expected.neighbourhood)
    wanted = [[labels[x] == labels[row] for x in own] for row, own in enumerate(expected.hits)]
    assert found.match.tolist() == wanted
    assert found.copies == 5 * copies * (copies + 1)  # of each of its copies, too


def test_copies_that_differ_by_rounding_are_left_out_too(tmp_path):
    random = np.random.default_rng(0)
    mean = GALLERY.mean.numpy()
    blurred = mean[:20] + 1e-7 * np.abs(mean[:20]) * random.normal(size=(20, SPACE.dim))
    rows = [*range(72), *range(20)]
    gallery = gaussians(np.concatenate([mean, blurred]), var=GALLERY.var.numpy()[rows])
    engine = cluster_engine(tmp_path / "store", gallery, [LABELS[row] for row in rows])
    assert (engine.find(["row-3"]).embeddings.mean != gallery.mean[75]).any()
    found = ask_all(engine)
    plain = ask(cluster_engine(tmp_path / "plain", GALLERY, LABELS), own_queries(engine))
    assert found.copies == 40
    assert found.neighbourhood.distance[:, 0] == pytest.approx(plain.neighbourhood.distance[:, 0], rel=1e-4)


def test_images_of_equal_content_are_copies_whatever_their_vectors(tmp_path):
    """Another device or export may have encoded them."""
    digests = tuple(f"{row // 2:064d}" if row < 24 else "" for row in range(72))
    engine = made(tmp_path / "store", space=SPACE)
    facts = tuple({"label": label} for label in LABELS)
    engine.add(Rows(tuple(f"row-{n}" for n in range(72)), GALLERY, digests, facts))
    found = ask_all(engine)
    assert found.copies == 24
    for row in range(24):
        others = GALLERY[[n for n in range(72) if n // 2 != row // 2]]
        assert_same_neighbourhood(
            found.neighbourhood.at(np.array([row])),
            brute_force_neighbourhood(others, GALLERY[row : row + 1]).neighbourhood,
        )


def test_a_query_whose_only_matches_are_copies_has_none(tmp_path):
    rows = [0, 0, *range(6, 72)]
    engine = cluster_engine(tmp_path / "store", GALLERY[rows], [LABELS[row] for row in rows])
    found = ask_all(engine)
    assert found.has_match.tolist() == [False, False, *[True] * 66]


def test_an_equal_vector_with_another_label_is_a_wrong_hit(tmp_path):
    rows, labels = [*range(72), 0, 7], [*LABELS, "class 5", "class 5"]
    found = ask_all(cluster_engine(tmp_path / "store", GALLERY[rows], labels))
    assert (found.neighbourhood.distance[[0, 7, 72, 73], 0] == 0).all()
    assert not found.match[[0, 7, 72, 73], 0].any()
    assert found.copies == 0


def test_a_copy_without_a_label_is_left_out(tmp_path):
    engine = cluster_engine(tmp_path / "store", GALLERY, LABELS)
    engine.add(Rows(("bare",), GALLERY[3:4], ("",), ({},)))
    found = ask_all(engine)
    assert found.neighbourhood.distance[3, 0] > 0
    assert found.copies == 1


def test_a_query_that_finds_little_else_than_copies_is_left_out(tmp_path):
    rows = [*range(20), *[20] * 31]
    engine = cluster_engine(tmp_path / "store", GALLERY[rows], [LABELS[row] for row in rows])
    queries = own_queries(engine)
    assert len(ask(engine, queries).match) == 51
    engine.remove(["row-0"])
    found = ask(engine, queries.at(np.arange(1, 51)))
    assert len(found.match) == len(found.class_codes) == len(found.has_match) == 19
    with pytest.raises(sf.InvalidArgument, match="find 20 images besides their copies, got 31"):
        ask(engine, queries.at(np.arange(20, 51)))


def test_a_vector_that_is_there_a_thousand_times_is_searched_in_bounded_parts(tmp_path, monkeypatch):
    rows = [*range(72), *[5] * 1000]
    engine = cluster_engine(tmp_path / "store", GALLERY[rows], [LABELS[row] for row in rows])
    fetched, search = [], copies_module.nearest

    def watched(engine, query, k, **options):
        fetched.append(len(query) * k)
        return search(engine, query, k, **options)

    monkeypatch.setattr(copies_module, "nearest", watched)
    monkeypatch.setattr(copies_module, "NUMBERS_AT_ONCE", 5000 * SPACE.width)
    queries = own_queries(engine).at(np.arange(72))
    found = ask(engine, queries)
    assert max(fetched) <= 5000
    assert found.copies == 1000
    plain = ask(cluster_engine(tmp_path / "plain", GALLERY, LABELS), queries)
    assert_same_neighbourhood(found.neighbourhood.at(np.array([5])), plain.neighbourhood.at(np.array([5])))
    assert found.match[5].tolist() == plain.match[5].tolist()


@pytest.mark.parametrize("count", [1, 21])
def test_a_gallery_that_is_too_small_is_refused(tmp_path, count):
    engine = cluster_engine(tmp_path / "few", GALLERY[:count], LABELS[:count])
    with pytest.raises(sf.InvalidArgument, match=f"at least 22 images, got {count}"):
        ask(engine, embedded_queries(GALLERY, LABELS))


ANIMALS = [{"label": name} for name in ("cat", "dog", "cat", "cow")]


def places(count, seed, *, size=100.0):
    random = np.random.default_rng(seed)
    return [{"east": float(east), "north": float(north)} for east, north in random.uniform(0, size, (count, 2))]


def near(one, other) -> bool:
    return ((one["east"] - other["east"]) ** 2 + (one["north"] - other["north"]) ** 2) ** 0.5 <= RADIUS


@pytest.mark.parametrize("query", [{"label": "3"}, {"label": 3}])
def test_a_label_is_the_same_as_a_number_and_as_a_text(query):
    gallery = [{"label": 3}, {"label": "3"}, {"label": 4}, {}]
    assert matching(query, gallery).tolist() == [True, True, False, False]
    assert queries_with_match([query], gallery, left_out=np.array([False])).all()


def test_places_within_the_radius_match():
    gallery, queries = places(200, 0), places(20, 1)
    for query in queries:
        wanted = [near(query, row) for row in gallery]
        assert any(wanted)
        assert not all(wanted)
        assert matching(query, gallery).tolist() == wanted


def test_a_label_counts_more_than_a_place():
    row = {"label": "cat", "east": 0.0, "north": 0.0}
    assert not matching({"label": "dog", "east": 0.0, "north": 0.0}, [row]).any()


@pytest.mark.parametrize("inside", [True, False])
def test_places_that_are_near_are_counted_as_a_loop_does(inside):
    gallery = places(60, 2, size=400.0)
    queries = gallery[:30] if inside else places(30, 3, size=400.0)
    wanted = [sum(near(query, row) for row in gallery) > inside for query in queries]
    assert any(wanted)
    assert not all(wanted)
    found = queries_with_match(queries, gallery, left_out=np.full(30, inside))
    assert found.tolist() == wanted


def test_some_queries_may_have_a_label_and_others_a_place():
    gallery = [{"label": "cat"}, {"east": 1.0, "north": 0.0}]
    queries = [{"label": "cat"}, {"label": "dog"}, {"east": 0.0, "north": 0.0}]
    assert queries_with_match(queries, gallery, left_out=np.zeros(3)).tolist() == [True, False, True]


def test_rows_without_a_place_match_no_place():
    gallery, queries = [*places(20, 4), {}, {"label": "cat"}], places(5, 5)
    assert not matching(queries[0], gallery)[20:].any()
    found = queries_with_match(queries, gallery, left_out=np.zeros(5, dtype=bool))
    assert found.tolist() == [any(near(q, row) for row in gallery[:20]) for q in queries]
    assert not queries_with_match(queries, [{}, {}], left_out=np.zeros(5, dtype=bool)).any()


def test_classes_are_those_of_the_labels_and_every_place_is_its_own():
    codes = classes_of(ANIMALS)
    assert codes[0] == codes[2]
    assert len(set(codes.tolist())) == 3
    assert sorted(classes_of(places(7, 6)).tolist()) == list(range(7))
