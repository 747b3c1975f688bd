"""Calibrations for searches that are not plain: filters, views, the other ranking, other kinds."""

import numpy as np
import pytest
from clusters import gaussians, thirds

from surefind.confidence.calibrate import CalibrationTargets
from surefind.errors import InvalidArgument
from surefind.search.index import Index

(GALLERY, LABELS), (KNOWN, KNOWN_LABELS), (FRESH, FRESH_LABELS) = thirds(classes=40, seed=3)
ODD = "parity = odd"
VARIANTS = {"filter": {"where": "label != class 3"}, "ranking": {"ranking": "expected"}}


def right_and_sure(results, labels) -> tuple[np.ndarray, np.ndarray]:
    right = [its.hits[0].label == label for its, label in zip(results, labels, strict=True)]
    return np.array(right), np.array([its.confidence for its in results])


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_has_confidence_and_a_guarantee_once_it_is_calibrated(index, name):
    asked = VARIANTS[name]
    before = index.search(FRESH[:1], **asked)[0]
    assert before.verdict is None
    assert "--again" in before.uncalibrated
    index.calibrate(again=True, learn_variance=False, **asked)
    results = index.search(FRESH, k=1, **asked)
    right, sure = right_and_sure(results, FRESH_LABELS)
    assert sure.mean() == pytest.approx(right.mean(), abs=0.08)
    assert sure[right].mean() > sure[~right].mean() + 0.1
    assert results[0].guaranteed


def test_a_calibrated_variant_is_kept_and_leaves_plain_searches_as_they_were(index):
    plain = index.search(FRESH[:20], k=3)
    index.calibrate(again=True, learn_variance=False, where="label != class 3")
    assert index.search(FRESH[:20], k=3) == plain
    assert index.calibration.origin.variant == ""
    wanted = index.search(FRESH[:20], where="label != class 3")
    again = Index.open(index.folder)
    assert again.search(FRESH[:20], where="label != class 3") == wanted
    assert again.search(FRESH[:1], where="label != class 4")[0].verdict is None


def test_several_views_are_calibrated_with_several_views_of_each_class(index):
    calibration = index.calibrate(again=True, learn_variance=False, views=2)
    assert calibration.origin.variant == "2 views"
    assert calibration.origin.queries <= len(KNOWN) // 2
    sets = [np.flatnonzero(np.array(FRESH_LABELS) == label)[:2] for label in dict.fromkeys(LABELS)]
    results = [index.search_views(FRESH[its.tolist()], k=1) for its in sets]
    right, sure = right_and_sure(results, list(dict.fromkeys(LABELS)))
    assert sure.mean() == pytest.approx(right.mean(), abs=0.15)


def test_views_need_queries_that_are_not_in_the_index(index):
    with pytest.raises(InvalidArgument, match="views: expected labelled queries that are not in"):
        index.calibrate(views=2, use_labels=True)


@pytest.mark.parametrize("use_labels", [True, False])
def test_queries_of_another_kind_are_never_judged_by_the_calibration_of_images(index, use_labels):
    index.calibrate(KNOWN, labels=KNOWN_LABELS, use_labels=use_labels, learn_variance=False)
    shifted = gaussians(KNOWN.mean.numpy() + 0.3)
    texts = gaussians(FRESH.mean.numpy() + 0.3)
    before = index.search(texts[:1], kind="text")[0]
    assert (before.verdict, before.confidence, before.label) == (None, None, None)
    assert before.uncalibrated.endswith("--kind text")
    index.calibrate(
        shifted,
        labels=KNOWN_LABELS,
        kind="text",
        use_labels=use_labels,
        learn_variance=False,
        targets=CalibrationTargets(precision=0.6, probability=0.8),
    )
    results = index.search(texts, k=1, kind="text")
    right, sure = right_and_sure(results, FRESH_LABELS)
    assert sure.mean() == pytest.approx(right.mean(), abs=0.1)
    assert index.search(FRESH[:1])[0].verdict is not None


def test_too_few_queries_for_a_kind_are_refused_instead_of_answered_by_the_prior(index):
    with pytest.raises(InvalidArgument, match=r"calibration of its own \(kind text\)"):
        index.calibrate(KNOWN[:3], labels=KNOWN_LABELS[:3], kind="text", use_labels=True)
