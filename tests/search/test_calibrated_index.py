"""Searches of an index that is calibrated without labels."""

import shutil

import numpy as np
import pytest
from brute_force import brute_force_neighbourhood
from clusters import DIM, FINGERPRINT, SPACE, cluster_index, gaussians, thirds

import surefind as sf
from surefind.confidence.calibrate import CalibrationTargets
from surefind.confidence.conformal import VERDICTS
from surefind.engines.base import Space
from surefind.search.index import Index

(GALLERY, LABELS), (KNOWN, KNOWN_LABELS), (FRESH, FRESH_LABELS) = thirds(classes=40, seed=3)


def answers(index: Index, queries=FRESH, k: int = 5) -> list[tuple]:
    return [(result.confidence, result.verdict) for result in index.search(queries, k=k)]


# what an answer says


def test_every_hit_has_a_confidence(index):
    for result in index.search(FRESH[:50], k=7):
        sure = [hit.confidence for hit in result.hits]
        assert all(0 < one < 1 for one in sure)
        assert result.confidence == sure[0]
        assert result.verdict in VERDICTS
        assert 0 < result.novelty_p_value <= 1
        assert 1 <= result.show <= 20
        assert result.uncalibrated is None


def test_confidence_agrees_with_brute_force(index):
    model = index.calibration.model
    wanted = model.confidence(brute_force_neighbourhood(GALLERY, FRESH[:12]).neighbourhood)
    results = index.search(FRESH[:12], k=20, ranking="mean")
    found = [[hit.confidence for hit in result.hits] for result in results]
    assert np.array(found) == pytest.approx(wanted, abs=1e-4)


def test_hits_beyond_the_twentieth_have_no_confidence(index):
    for result in index.search(FRESH[:3], k=33):
        assert [hit.confidence is None for hit in result.hits] == [False] * 20 + [True] * 13


@pytest.mark.parametrize("k", [1, 19, 20, 60])
def test_confidence_does_not_depend_on_k(index, k):
    for few, many in zip(index.search(FRESH[:9], k=k), index.search(FRESH[:9], k=30), strict=True):
        sure, wanted = ([hit.confidence for hit in result.hits[:20]] for result in (few, many))
        assert sure == pytest.approx(wanted[: len(sure)])
        assert (few.verdict, few.show) == (many.verdict, many.show)


def test_some_queries_match_some_are_unsure_and_sure_ones_are_right_more_often(index):
    results = index.search(FRESH, k=1)
    right = np.array(
        [result.hits[0].metadata["label"] == label for result, label in zip(results, FRESH_LABELS, strict=True)]
    )
    called = np.array([result.verdict == "match" for result in results])
    assert 0.1 < called.mean() < 0.95
    assert right[called].mean() > 0.75 - 3 * (0.75 * 0.25 / called.sum()) ** 0.5
    assert right[called].mean() > right[~called].mean() + 0.2
    sure = np.array([result.confidence for result in results])
    assert sure.mean() == pytest.approx(right.mean(), abs=0.06)


def test_queries_far_away_get_no_match(index):
    far = gaussians(FRESH.mean.numpy() + 1000)
    for result in index.search(far[:30]):
        assert result.verdict == "no_match"
        assert result.novelty_p_value <= 0.01


def test_few_genuine_queries_get_no_match(tmp_path):
    rate, called = 0.05, []
    for seed in range(5):
        gallery, known, fresh = thirds(seed=seed)
        with cluster_index(tmp_path / str(seed), *gallery) as index:
            targets = CalibrationTargets(novelty_level=rate)
            index.calibrate(known[0], labels=known[1], targets=targets, use_labels=False, learn_variance=False)
            called += [result.verdict == "no_match" for result in index.search(fresh[0], k=1)]
    slack = 3 * (2 * rate * (1 - rate) / len(called)) ** 0.5  # of the two sets of queries
    assert np.mean(called) <= rate + slack
    assert any(called)


# when nothing is said, and why


def test_there_is_no_confidence_before_the_calibration(tmp_path):
    index = cluster_index(tmp_path / "index", GALLERY, LABELS)
    assert (index.calibrated, index.calibration) == (None, None)
    result = index.search(FRESH[:1])[0]
    assert result.uncalibrated == f"not calibrated yet: surefind calibrate {tmp_path}/index DATA"
    assert (result.confidence, result.verdict, result.novelty_p_value) == (None, None, None)
    assert result.show is None
    assert {hit.confidence for hit in result.hits} == {None}


@pytest.mark.parametrize("asked", [{"where": "label != class 3"}, {"expand": 3}, {"ranking": "expected"}])
def test_a_search_without_confidence_says_why(index, asked):
    result = index.search(FRESH[:1], **asked)[0]
    assert len(result.hits) == 5
    assert "for plain searches" in result.uncalibrated
    assert (result.confidence, result.verdict, result.show) == (None, None, None)
    assert {hit.confidence for hit in result.hits} == {None}


def test_several_views_have_no_confidence_but_one_view_has(index):
    several = index.search_views(FRESH[:3])
    assert "for plain searches" in several.uncalibrated
    assert several.confidence is None
    one = index.search_views(FRESH[:1])
    assert one.confidence == pytest.approx(index.search(FRESH[:1])[0].confidence)


def test_a_gallery_that_became_too_small_gives_hits_and_a_reason(index):
    index.remove([f"row-{n}" for n in range(19, len(LABELS))])
    result = index.search(FRESH[:1], k=30)[0]
    assert len(result.hits) == 19
    assert "fewer than 20 images were found" in result.uncalibrated
    assert (result.confidence, result.verdict) == (None, None)
    index.remove([f"row-{n}" for n in range(19)])
    nothing = index.search(FRESH[:1])[0]
    assert nothing.hits == ()
    assert "fewer than 20 images" in nothing.uncalibrated


# the gallery changes


def test_a_snapshot_keeps_the_calibration(index, tmp_path):
    copy = index.snapshot(tmp_path / "copy")
    shutil.rmtree(tmp_path / "index")
    assert answers(Index.open(tmp_path / "copy")) == answers(copy)
    assert copy.calibration.guarantee.queries == len(KNOWN_LABELS)


def test_refreshing_shows_the_calibration_of_another_process(tmp_path):
    index = cluster_index(tmp_path / "index", GALLERY, LABELS)
    assert index.search(FRESH[:1])[0].confidence is None
    with Index.open(tmp_path / "index") as other:
        other.calibrate(KNOWN, labels=KNOWN_LABELS, use_labels=False, learn_variance=False)
        wanted = answers(other)
    assert index.search(FRESH[:1])[0].confidence is None
    index.refresh()
    assert answers(index) == wanted


# drift, and the calibration of another gallery


def test_other_queries_drift_more_than_those_of_the_calibration(index):
    moved = gaussians(FRESH.mean.numpy() + np.random.default_rng(0).normal(size=FRESH.mean.shape))
    found = {drift.name: drift.statistic for drift in index.drift(moved)}
    assert {"distance", "confidence"} <= set(found)
    alike = {drift.name: drift.statistic for drift in index.drift(FRESH)}
    assert "distance" not in alike
    assert found["distance"] > 0.3


def test_drift_needs_a_calibration_and_enough_queries(index, tmp_path):
    plain = cluster_index(tmp_path / "plain", GALLERY, LABELS)
    with pytest.raises(sf.InvalidArgument, match="expected a calibrated index"):
        plain.drift(FRESH)
    for count in (0, 29):
        with pytest.raises(sf.InvalidArgument, match=f"at least 30 queries .*got {count} of"):
            index.drift(FRESH[:count])
    index.remove([f"row-{n}" for n in range(19, len(LABELS))])
    with pytest.raises(sf.InvalidArgument, match=f"got 0 of {len(FRESH_LABELS)}"):
        index.drift(FRESH)


def test_a_calibration_can_be_adopted_by_another_gallery_of_the_model(index, tmp_path):
    gallery, _, fresh = thirds(classes=40, seed=11)
    other = cluster_index(tmp_path / "other", *gallery)
    other.adopt(index.calibrated)
    model = index.calibration.model
    near = brute_force_neighbourhood(gallery[0], fresh[0][:8]).neighbourhood
    found = [result.confidence for result in other.search(fresh[0][:8])]
    assert found == pytest.approx(model.confidence(near).max(axis=1), abs=1e-4)
    assert Index.open(tmp_path / "other").calibration == index.calibration


@pytest.mark.parametrize(
    ("space", "fingerprint"), [(SPACE, "d" * 64), (Space("gaussian", DIM, "expected"), FINGERPRINT)]
)
def test_a_calibration_of_another_model_or_order_is_not_adopted(index, tmp_path, space, fingerprint):
    other = Index.create_empty(tmp_path / "other", space, fingerprint=fingerprint)
    with pytest.raises(sf.InvalidFile, match="calibration of another index"):
        other.adopt(index.calibrated)
    assert other.calibration is None
