"""Labelled queries in the gallery, and without their class; the fits to them."""

import numpy as np
import pytest
import torch
from clusters import SPACE, gaussians, rows_of
from label_galleries import Labelled, overlapping
from memory_engine import MemoryEngine

from surefind import metrics
from surefind.confidence.calibrate import CalibrationTargets, embedded_queries, own_queries
from surefind.confidence.class_table import ClassTable
from surefind.confidence.label_calibration import LabelData, calibrate_labels, collect_label_data, fit_labels, vote_of
from surefind.confidence.label_model import LabelNeighbourhood, prior_model
from surefind.confidence.labelled_queries import read_queries
from surefind.engines.base import Rows

GALLERY = overlapping(16, 12, seed=2)
KNOWN = overlapping(16, 4, seed=2, noise=0.7)


def engine_of(gallery: Labelled, ids: tuple[str, ...] | None = None) -> MemoryEngine:
    engine = MemoryEngine(SPACE, {"fingerprint": "f" * 64})
    facts = tuple({} if label is None else {"label": label} for label in gallery.labels)
    ids = ids or tuple(f"row-{row}" for row in range(len(facts)))
    engine.add(Rows(ids, gallery.embeddings, ("",) * len(ids), facts))
    return engine


def collected(engine: MemoryEngine, queries=None) -> LabelData:
    queries = own_queries(engine, at_least=False) if queries is None else queries
    return collect_label_data(engine, queries, ClassTable.of(engine))


def assert_same_neighbourhoods(got: LabelNeighbourhood, want: LabelNeighbourhood) -> None:
    for name, column in got._asdict().items():
        assert column == pytest.approx(getattr(want, name), rel=1e-6), name


@pytest.fixture(scope="module")
def engine() -> MemoryEngine:
    return engine_of(GALLERY)


@pytest.fixture(scope="module")
def data(engine) -> LabelData:
    return collected(engine)


def brute_force(kept: np.ndarray, query: int) -> tuple[np.ndarray, list[int]]:
    """Distances and codes of the twenty nearest of some rows, without the query."""
    rows = np.flatnonzero(kept & (np.arange(len(kept)) != query))
    away = np.square(GALLERY.vectors[rows] - GALLERY.vectors[query]).sum(axis=1)
    order = np.argsort(away)[:20]
    return away[order], GALLERY.codes[rows[order]].tolist()


def test_queries_of_unknown_classes_find_the_nearest_of_the_others(data):
    rows, near = data.unknown
    assert len(rows) == len(GALLERY.codes)
    assert not (near.code == data.own[rows, None]).any()
    for query in range(0, len(rows), 9):
        away, codes = brute_force(GALLERY.codes != GALLERY.codes[query], query)
        assert near.distance[query] == pytest.approx(away, rel=1e-5)
        assert near.code[query].tolist() == codes


def test_copies_of_a_query_are_left_out_of_its_neighbours_and_of_its_class(data):
    twice = np.r_[np.arange(192), np.arange(0, 192, 12)]
    engine = engine_of(GALLERY.at(twice))
    found = collected(engine, own_queries(engine, at_least=False).at(np.arange(192)))
    assert found.copies == 16
    assert (found.near.distance[::12] > 0).all() and found.has_match.all()
    for query in range(0, 192, 12):  # to the mean of its class, as without the copy
        got, want = (its.near.mean_distance[query, its.near.code[query] == its.own[query]] for its in (found, data))
        assert got[:1] == pytest.approx(want[:1], rel=0.05)


def test_a_class_of_one_image_and_a_foreign_one_have_no_match():
    codes = np.r_[np.arange(15).repeat(12), np.full(11, -1), 15]
    found = collected(engine_of(Labelled(GALLERY.vectors, codes)))
    assert len(found.own) == 181  # those with a label
    assert found.has_match.tolist() == [True] * 180 + [False]
    engine = engine_of(GALLERY)
    foreign = embedded_queries(KNOWN.embeddings, ["nobody"] * 64, at_least=False)
    assert not collected(engine, foreign).has_match.any()


@pytest.mark.parametrize("images", [1, 2, 9, 21])
def test_small_galleries_have_as_many_neighbours_as_there_are(images):
    gallery = GALLERY.at(np.arange(0, 192, 5)[:images])
    found = collected(engine_of(gallery))
    alone = images == 1  # finds nothing, and is dropped
    assert found.near.distance.shape == ((0, 1) if alone else (images, min(images - 1, 20)))


def test_blank_labels_and_places_are_no_labelled_queries():
    engine = MemoryEngine(SPACE)
    rows = rows_of(GALLERY.embeddings, GALLERY.labels)
    blank = ({"label": ""}, {"east": 1.0, "north": 2.0}, {"label": "", "east": 1.0, "north": 2.0})
    engine.add(Rows(rows.ids, rows.embeddings, rows.digests, (*blank, *rows.metadata[3:])))
    assert len(own_queries(engine, at_least=False).facts) == 189
    assert len(own_queries(engine).facts) == 191  # places are, without labels of the gallery


def test_kept_queries_are_read_as_they_were_written(engine):
    queries = own_queries(engine)._replace(copies=3)
    again, source = read_queries(queries.to_bytes("somewhere"))
    assert source == "somewhere" and read_queries(None) is None
    assert torch.equal(again.embeddings.mean, queries.embeddings.mean)
    assert torch.equal(again.embeddings.spread, queries.embeddings.spread)
    for column in ("facts", "self_ids", "class_codes", "digests", "copies"):
        assert list(np.atleast_1d(getattr(again, column))) == list(np.atleast_1d(getattr(queries, column)))


# fits


def test_no_label_of_a_fold_influences_its_own_confidence(data):
    plain = fit_labels(data, prior_model())
    for fold in range(2):
        own = data.fold == fold
        drawn = np.random.default_rng(fold).permutation(data.own[own])
        changed = data.own.copy()
        changed[own] = drawn
        other = fit_labels(data._replace(own=changed), prior_model())
        judged = np.r_[own, own[data.unknown[0]]]
        assert np.array_equal(plain.each[judged], other.each[judged])
        assert np.array_equal(plain.log_odds[judged], other.log_odds[judged])
        assert not np.allclose(plain.each[~judged], other.each[~judged])


def test_labels_that_mean_nothing_are_not_found_out():
    """Classes of equal size, each image asked of the others: nothing may leak which is its own."""
    right, sure, areas = [], [], []
    for seed in range(3):
        random = np.random.default_rng(seed)
        codes = random.permutation(np.arange(10).repeat(32))
        found = collected(engine_of(Labelled(random.normal(size=(320, 6)), codes)))
        each = np.nan_to_num(fit_labels(found, prior_model()).each[:320])
        rows, first = np.arange(320), each.argmax(axis=1)
        right.append(found.right[rows, first])
        sure.append(each[rows, first])
        uncertainty, wrong, fold = map(torch.from_numpy, (-sure[-1], ~right[-1], found.fold))
        areas.append(metrics.auroc_within(uncertainty, wrong, fold))
    assert np.mean(areas) == pytest.approx(0.5, abs=0.1)  # three standard errors
    assert np.mean(right) == pytest.approx(1 / 10, abs=0.04)
    assert np.mean(sure) == pytest.approx(np.mean(right), abs=0.05)


def test_the_vote_is_the_commonest_label_of_ten_and_of_equals_the_nearest(data):
    voted, uncertainty = vote_of(data.near)
    for query, code in enumerate(data.near.code[:, :10].tolist()):
        most = max(code.count(its) for its in code)
        assert voted[query] == next(its for its in code if code.count(its) == most)
        assert uncertainty[query] == pytest.approx(-most / 10)


@pytest.mark.parametrize(
    ("queries", "labels", "why"),
    [
        (19, 16, "19 labelled images of 16 classes"),
        (60, 3, "60 labelled images of 3 classes"),
        (None, 0, "all classes were trained with"),
    ],
)
def test_with_too_little_the_prior_answers_and_says_why(engine, queries, labels, why):
    asked = None
    if queries is not None:
        rows = np.arange(queries)
        names = [f"class {row % labels}" for row in rows]
        asked = embedded_queries(gaussians(KNOWN.vectors[rows] + 1e-3), names, at_least=False)
    targets = CalibrationTargets(precision=0.9, miss_rate=0.2)
    made = calibrate_labels(
        engine, asked, ClassTable.of(engine), targets, source="somewhere", too_few=None if asked else why
    ).calibration
    assert (made.origin.evidence, made.model) == ("prior", prior_model())
    assert made.origin.remarks[0].startswith(f"prior calibration of surefind: {why}")
    assert (made.guarantee.threshold, made.threshold) == (None, 0.9)
    assert (made.quality, made.novelty, made.prediction_set.level) == (None, None, 0.8)


def test_twenty_queries_of_four_classes_are_enough(engine):
    names = [f"class {row % 4}" for row in range(20)]
    asked = embedded_queries(gaussians(KNOWN.vectors[:20]), names, at_least=False)
    made = calibrate_labels(engine, asked, ClassTable.of(engine), CalibrationTargets(), source="somewhere").calibration
    assert (made.origin.evidence, made.origin.queries) == ("labels", 20)
    assert made.model != prior_model()


def test_a_guarantee_holds_among_unknown_queries_if_their_share_is_given():
    gallery = overlapping(40, 12, seed=5)
    engine, unknown = engine_of(gallery), overlapping(24, 20, seed=6, noise=0.7)
    kept = {}
    for share in (0.0, 0.5):
        targets = CalibrationTargets(precision=0.7, unknown_share=share)
        own = own_queries(engine, at_least=False)
        made = calibrate_labels(engine, own, ClassTable.of(engine), targets, source="tests").calibration
        outside = embedded_queries(unknown.embeddings, ["?"] * 480, at_least=False)
        near = [collected(engine, its).near for its in (own, outside)]
        judged = made.judge_labels(LabelNeighbourhood.joined(near))
        match = np.array(judged.verdict) == "match"
        right = judged.labels.code[:480, 0] == gallery.codes
        kept[share] = right[match[:480]].sum() / match.sum(), match.mean()
        assert made.unknown_share == share
    assert kept[0.5][0] > max(0.65, kept[0.0][0] + 0.03)
    assert 0 < kept[0.5][1] < kept[0.0][1]
