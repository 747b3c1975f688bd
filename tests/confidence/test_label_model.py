"""Evidence of labels against plain loops; the model, its fit, and its prior."""

from dataclasses import replace

import numpy as np
import pytest
from clusters import DIM
from fit_prior import standardisation
from label_galleries import Labelled, neighbourhood_of, overlapping

from surefind.confidence.class_table import ClassTable
from surefind.confidence.label_calibration import LOOSE, TEMPERED, fit_label_model
from surefind.confidence.label_model import (
    CLASS_COLUMNS,
    FARTHEST_MEAN,
    KNOWN_COLUMNS,
    NEAREST_MEAN,
    QUERY_COLUMNS,
    SMALLEST_SHARE,
    SMALLEST_WIDTH,
    TYPICAL,
    LabelModel,
    LabelNeighbourhood,
    label_columns,
    label_neighbourhood,
    prior_model,
)

GALLERY = overlapping(8, 12, unlabelled=0.15)
QUERIES = overlapping(8, 3, seed=0, noise=0.6).vectors
ODD = {
    "whole": (GALLERY, 20),
    "fewer than twenty neighbours": (GALLERY.at(slice(0, 40, 3)), 14),
    "one neighbour": (GALLERY.at([0]), 1),
    "one class": (Labelled(GALLERY.vectors, np.zeros_like(GALLERY.codes)), 20),
    "classes of one image": (Labelled(GALLERY.vectors, np.arange(len(GALLERY.codes))), 20),
    "hardly labelled": (Labelled(GALLERY.vectors, np.where(np.arange(96) % 31, -1, 0)), 20),
    "unlabelled": (Labelled(GALLERY.vectors, np.full(96, -1)), 20),
    "equal vectors": (Labelled(np.ones((30, DIM)), np.arange(30) % 3), 20),
}


def loop_columns(near: LabelNeighbourhood, query: int) -> tuple[np.ndarray, dict, dict]:
    """Columns of one query: of the classes (K, F), of the query, and whether it is known."""
    distance, code = near.distance[query], near.code[query].tolist()
    places = range(len(code))
    logs = np.log(np.maximum(distance, distance[-1] * 1e-6))
    width = SMALLEST_WIDTH + np.mean(logs[-1] - logs)
    mean, spread = np.log(near.mean_distance[query]), np.log(near.spread[query])
    firsts = [k for k in places if code[k] >= 0 and code[k] not in code[:k]]

    def same(k):
        return [j for j in places if code[j] == code[k] >= 0]

    def others(k):
        return [j for j in places if code[j] >= 0 and j not in same(k)]

    def share(k, nearest):
        labelled = sum(code[j] >= 0 for j in places[:nearest])
        return sum(j < nearest for j in same(k)) / max(labelled, 1)

    def weighted(k):
        away = distance - distance[0]
        typical = max(away.mean(), np.finfo(float).tiny)
        weight = np.exp(-away / typical) * (np.array(code) >= 0)
        total = weight.sum()
        part = sum(weight[j] for j in same(k)) / total if total else 0.0
        return np.log(part + SMALLEST_SHARE)

    def margin(values, k):
        return (min([values[j] for j in others(k)], default=values[k]) - values[k]) / width

    def rank(values, k):
        return np.log1p(sum(values[j] < values[k] for j in firsts))

    rows = [
        [
            *(share(k, nearest) for nearest in (3, 5, 10, 20)),
            weighted(k),
            (min([logs[j] for j in others(k)], default=logs[-1]) - logs[k]) / width,
            rank(mean, k),
            rank(mean - spread, k),
            margin(mean, k),
            margin(mean - spread, k),
            near.relative_size[query, k],
        ]
        for k in places
    ]
    shares = [0.0, 0.0, *sorted(share(k, 20) for k in firsts)]
    of_query = {
        "labels": np.log(max(len(firsts), 1)),
        "lead": shares[-1] - shares[-2],
        "nearest_ratio": (logs[0] - logs[-1]) / width,
        "best_mean_margin": max((margin(mean, k) for k in firsts), default=0.0),
        "best_scaled_mean_margin": max((margin(mean - spread, k) for k in firsts), default=0.0),
        "size": near.size[query],
        "classes": near.classes[query],
    }
    known = of_query | {
        "best_scaled_mean": max((-np.exp(min(mean[k] - spread[k], FARTHEST_MEAN)) for k in firsts), default=0.0),
        "best_mean": max((logs.mean() - mean[k] for k in firsts), default=0.0),
        "local_width": np.log(width),
        "nearest": logs[0] - logs[-1],
        "distance": logs[0],
    }
    return np.array(rows), of_query, known


# evidence


@pytest.mark.parametrize("name", [name for name in ODD if name != "equal vectors"])
def test_columns_are_those_of_a_plain_loop(name):
    gallery, k = ODD[name]
    near = neighbourhood_of(gallery, QUERIES, k)
    columns = label_columns(near)
    known = columns.known
    for query in range(len(QUERIES)):
        of_class, of_query, of_known = loop_columns(near, query)
        assert columns.of_class[query] == pytest.approx(of_class)
        assert columns.of_query[query] == pytest.approx([of_query[name] for name in QUERY_COLUMNS])
        assert known[query] == pytest.approx([of_known[name] for name in KNOWN_COLUMNS])


def test_distances_to_class_means_are_those_of_a_plain_loop():
    near = neighbourhood_of(GALLERY, QUERIES)
    for query, place in np.ndindex(near.code.shape):
        if (code := near.code[query, place]) < 0:
            continue
        its = GALLERY.vectors[GALLERY.codes == code]
        scatter = np.square(its - its.mean(axis=0)).sum()
        spread = (scatter + TYPICAL * GALLERY.table.spread) / (len(its) - 1 + TYPICAL)
        raw = np.square(QUERIES[query] - its.mean(axis=0)).sum()
        wanted = max(raw - spread / len(its), NEAREST_MEAN * raw)
        assert near.mean_distance[query, place] == pytest.approx(wanted)
        assert near.spread[query, place] == pytest.approx(spread)


def test_the_distance_to_a_class_mean_is_right_on_average_however_few_images_it_has():
    """Without the correction it would be too large by the variance of the mean."""
    random, found = np.random.default_rng(0), []
    query, few = np.full((1, DIM), 2.0), np.zeros(3, dtype=int)
    for _ in range(400):
        vectors = random.normal(size=(3, DIM))
        others = random.normal(size=(60, DIM))  # of a class that makes the spread known
        gallery = Labelled(np.concatenate([vectors, others]), np.r_[few, np.ones(60, dtype=int)])
        found.append(label_neighbourhood(gallery.table, query, np.ones((1, 1)), np.array([[0]])))
    mean = np.mean([near.mean_distance[0, 0] for near in found])
    assert mean == pytest.approx(4 * DIM, rel=0.05)


@pytest.mark.parametrize("copies", [1, 3])
def test_a_query_in_the_gallery_is_judged_as_if_it_and_its_copies_were_not(copies):
    gallery = overlapping(20, 15)
    rows = np.arange(0, 300, 41)
    vectors, own = gallery.vectors[rows], gallery.codes[rows]
    more = [gallery.vectors, *[vectors] * (copies - 1)]
    whole = Labelled(np.concatenate(more), np.r_[gallery.codes, np.tile(own, copies - 1)])
    for query, (row, code) in enumerate(zip(rows, own, strict=True)):
        without = gallery.at(np.arange(300) != row)
        want = neighbourhood_of(without, vectors[[query]])
        left = np.array([float(copies)])
        got = label_neighbourhood(
            whole.table, vectors[[query]], want.distance, want.code, own=own[[query]], left_out=left
        )
        mine = want.code[0] == code
        assert mine.any()
        for column in ("mean_distance", "spread"):  # the average spread has changed a little
            assert getattr(got, column)[0, mine] == pytest.approx(getattr(want, column)[0, mine], rel=0.02)


def test_classes_of_equal_size_say_nothing_of_the_class_of_a_query_inside():
    near = neighbourhood_of(overlapping(8, 12), np.arange(0, 96, 7), inside=True)
    assert near.relative_size == pytest.approx(0)
    assert near.size == pytest.approx(np.log(11))


# the model


@pytest.mark.parametrize(("name", "inside"), [*((name, False) for name in ODD), ("whole", True), ("one class", True)])
def test_probabilities_and_none_sum_to_one_and_hits_of_a_class_share_theirs(name, inside):
    gallery, k = ODD[name]
    rows = np.arange(0, len(gallery.codes), 5)
    near = neighbourhood_of(gallery, rows if inside else QUERIES, k, inside=inside)
    found = prior_model().probabilities(near)
    total = np.where(found.first, found.each, 0).sum(axis=1) + found.none
    assert total == pytest.approx(1)
    assert np.array_equal(np.isnan(found.each), near.code < 0)
    for each, code in zip(found.each, near.code, strict=True):
        for label in set(code.tolist()) - {-1}:
            assert np.ptp(each[code == label]) == pytest.approx(0)


def test_no_weight_of_the_prior_has_the_wrong_sign():
    prior = prior_model()
    assert prior.names == (*CLASS_COLUMNS, *QUERY_COLUMNS)
    for weight, (direction, _) in zip(prior.weights, CLASS_COLUMNS.values(), strict=False):
        assert weight * direction >= 0


def test_a_label_that_more_neighbours_have_is_more_probable():
    near = neighbourhood_of(overlapping(8, 12), QUERIES)
    most = near._replace(code=near.code.copy())
    most.code[:, 1:] = most.code[:, :1]
    before, after = (prior_model().probabilities(its).each[:, 0] for its in (near, most))
    assert (after > before).all()


# the fit


def labelled(queries: int = 240, *, seed: int = 5) -> tuple[LabelNeighbourhood, np.ndarray]:
    gallery = overlapping(20, 12, seed=seed)
    rows = np.random.default_rng(seed).permutation(240)[:queries]
    return neighbourhood_of(gallery, rows, inside=True), gallery.codes[rows]


def loop_cost(model: LabelModel, near, own, *, weights, prior: LabelModel, penalty: float) -> float:
    found, total = model.probabilities(near), 0.0
    for query, (code, weight) in enumerate(zip(own, weights, strict=True)):
        place = np.flatnonzero(near.code[query] == code)
        its = found.each[query, place[0]] if len(place) else found.none[query]
        total -= weight * np.log(its)
    total += penalty * LOOSE * (model.bias - prior.bias) ** 2 / 2
    for part in (slice(len(CLASS_COLUMNS)), slice(len(CLASS_COLUMNS), None)):
        start = np.array(prior.weights[part])
        away = model.weights[part] - start
        along = (away @ start) ** 2 / (start @ start)
        total += penalty * (away @ away - along + LOOSE * along) / 2
    return total


@pytest.mark.parametrize("flipped", [False, True])
def test_no_allowed_weights_cost_less(flipped):
    """With labels turned around, directions bind."""
    near, own = labelled()
    if flipped:
        own = np.where(near.code[:, 0] == own, -1, near.code[:, 0])
    weights = np.random.default_rng(0).uniform(0.5, 2, len(own))
    asked = {"weights": weights, "prior": prior_model(), "penalty": 20.0}
    model = fit_label_model(near, own, **asked)
    least = loop_cost(model, near, own, **asked)
    directions = [way for way, _ in CLASS_COLUMNS.values()] + [0] * len(QUERY_COLUMNS)
    bound = 0
    for place, way in enumerate(directions):
        assert model.weights[place] * way >= 0
        for step in (-1e-2, 1e-2):
            moved = list(model.weights)
            moved[place] += step
            if moved[place] * way < 0:
                bound += 1
                continue
            assert loop_cost(replace(model, weights=tuple(moved)), near, own, **asked) > least
    assert loop_cost(replace(model, bias=model.bias + 1e-2), near, own, **asked) > least
    assert bool(bound) or not flipped


def distance_from_prior(queries: int, penalty: float = 200.0) -> float:
    near, own = labelled(queries)
    prior = prior_model()
    model = fit_label_model(near, own, prior, penalty=penalty)
    return float(np.linalg.norm(np.subtract(model.weights, prior.weights)))


def test_few_queries_stay_near_the_prior_and_more_leave_it():
    few, some, many = (distance_from_prior(queries) for queries in (4, 40, 240))
    assert few < min(some, many)
    assert distance_from_prior(240, penalty=1e6) < 1e-3


def test_without_a_prior_columns_are_standardised_and_clipped():
    near, own = labelled()
    model = fit_label_model(near, own, standardisation(near), penalty=1.0)
    columns = label_columns(near)
    of_class = columns.of_class[columns.first]
    assert model.centre[: len(CLASS_COLUMNS)] == pytest.approx(of_class.mean(axis=0))
    far = near._replace(relative_size=near.relative_size + 1e6)
    farther = near._replace(relative_size=near.relative_size + 1e9)
    one, other = (model.probabilities(its).each for its in (far, farther))
    assert one == pytest.approx(other)


def test_only_a_fit_without_prior_learns_how_evidence_depends_on_the_size_of_the_gallery():
    parts = [
        neighbourhood_of(overlapping(20, images, seed=5), np.arange(0, 20 * images, 3), inside=True)
        for images in (3, 12)
    ]
    near = LabelNeighbourhood.joined(parts)
    own = np.concatenate([np.arange(0, 20 * images, 3) // images for images in (3, 12)])
    free = fit_label_model(near, own, standardisation(near), penalty=1.0)
    learned = dict(zip(QUERY_COLUMNS, free.temperature, strict=True))
    assert learned.pop("size") != 0
    assert all(value == 0 for name, value in learned.items() if name not in TEMPERED)
    assert fit_label_model(near, own, free).temperature == free.temperature


def test_of_an_empty_table_nothing_is_known():
    near = label_neighbourhood(
        ClassTable.empty(DIM), QUERIES, np.ones((len(QUERIES), 5)), np.full((len(QUERIES), 5), -1)
    )
    found = prior_model().probabilities(near)
    assert np.isnan(found.each).all() and found.none == pytest.approx(1)
