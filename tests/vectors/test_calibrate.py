"""sf.calibrate: from labelled vectors to an upgrade, or one error that says what is needed."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import surefind as sf
from surefind.confidence import calibrate as calibrating
from surefind.confidence.evidence import COLUMNS
from surefind.confidence.labelled_queries import QueryVariance
from surefind.confidence.match_model import FOLDS, folds_of
from surefind.confidence.variance_heads import fit_variance_heads
from surefind.vectors import upgrade as upgrade_module


def test_confidence_separates_right_from_wrong_in_unseen_classes_better_than_distance(upgrade, fresh, tmp_path):
    gallery, asked = slice(0, None, 2), slice(1, None, 2)
    index = upgrade.index(tmp_path / "index", fresh.vectors[gallery], labels=fresh.labels[gallery])
    results = index.search(upgrade.embed(fresh.vectors[asked]), k=1)
    first = [result.hits[0] for result in results]
    right = [hit.metadata["label"] == str(label) for hit, label in zip(first, fresh.labels[asked], strict=True)]
    by_distance = roc_auc_score(right, [-hit.distance for hit in first])
    assert roc_auc_score(right, [result.confidence for result in results]) > by_distance + 0.15


def test_vectors_that_are_there_twice_change_nothing_and_are_counted(known, upgrade):
    again = np.random.default_rng(0).permutation(360)[:108]
    vectors = np.concatenate([known.vectors, known.vectors[again]])
    labels = np.concatenate([known.labels, known.labels[again]])
    wanted = upgrade
    found = sf.calibrate(vectors, labels, targets=sf.CalibrationTargets(precision=0.8))
    assert found.fingerprint == wanted.fingerprint
    assert found.calibration.quality == wanted.calibration.quality
    assert found.calibration.guarantee == wanted.calibration.guarantee
    origin = found.calibration.origin
    assert (origin.queries, origin.classes, origin.gallery, origin.copies) == (360, 30, 360, 108)
    assert (origin.source, origin.fingerprint) == ("468 labelled vectors", upgrade.fingerprint)
    assert wanted.calibration.origin.copies == 0


def test_it_says_how_good_it_is(upgrade, known):
    assert upgrade.calibration.guarantee.precision == 0.8
    quality = upgrade.calibration.quality
    between = np.square(known.vectors[:, None] - known.vectors).sum(axis=2)
    np.fill_diagonal(between, np.inf)
    nearest = known.labels[between.argmin(axis=1)]
    assert quality.nearest_right == pytest.approx((nearest == known.labels).mean())


def test_learned_variance_is_evidence(upgrade, plain):
    sources = [{COLUMNS[name].source for name in made.calibration.model.names} for made in (upgrade, plain)]
    assert "log_var" in sources[0] and "log_var" not in sources[1]
    assert upgrade.heads is not None and plain.heads is None


def test_what_is_known_of_a_vector_stays_with_it(known, plain, monkeypatch):
    """Heads that know when the nearest is wrong help much, unless they are asked of other rows."""
    away = np.square(known.vectors[:, None] - known.vectors).sum(axis=2)
    np.fill_diagonal(away, np.inf)
    wrong = (known.labels[away.argmin(axis=1)] != known.labels).astype(float)
    heads = fit_variance_heads(torch.from_numpy(known.vectors), known.labels, steps=1).heads
    all_knowing = QueryVariance(heads, wrong, folds_of(known.labels), FOLDS * (QueryVariance(heads, wrong),))
    monkeypatch.setattr(upgrade_module, "fit_query_variance", lambda *_, **__: all_knowing)
    made = sf.calibrate(known.vectors, known.labels)
    assert made.calibration.quality.aurc < 0.6 * plain.calibration.quality.aurc


def test_no_label_of_a_fold_influences_its_own_confidence(known, upgrade):
    """Neither by the fits nor by the heads: its labels change places, all others stay."""
    fold = 3
    own = np.flatnonzero(np.array(upgrade.calibration.curve.fold) == fold)
    labels = known.labels.copy()
    labels[own] = labels[np.random.default_rng(fold).permutation(own)]
    assert (labels != known.labels).sum() > 20
    other = sf.calibrate(known.vectors, labels)
    before, after = (np.array(made.calibration.curve.confidence) for made in (upgrade, other))
    assert other.calibration.curve.fold == upgrade.calibration.curve.fold
    assert np.array_equal(before[own], after[own])
    assert not np.allclose(np.delete(before, own), np.delete(after, own))


def test_so_few_classes_that_no_heads_can_be_learned_without_a_fold_are_judged_all_the_same(known):
    made = sf.calibrate(known.vectors, known.labels % 4)
    assert made.heads is not None
    assert len(set(made.calibration.curve.fold)) == 4
    assert all(0 < sure < 1 for sure in made.calibration.curve.confidence)


def test_the_same_seed_gives_the_same_upgrade_without_touching_the_vectors(known, upgrade, other):
    vectors = known.vectors.copy()
    vectors.flags.writeable = False  # as those of a file that is mapped into memory
    again = sf.calibrate(vectors, known.labels)
    assert again.fingerprint == upgrade.fingerprint
    assert again.calibration.model == upgrade.calibration.model
    assert other.fingerprint != upgrade.fingerprint
    np.testing.assert_array_equal(vectors, known.vectors)


def test_progress_is_reported_by_stage(known):
    reported = {}
    sf.calibrate(known.vectors, known.labels, progress=lambda what, *count: reported.update({what: count}))
    steps = (1 + FOLDS) * calibrating.STEPS  # for all classes, and without each fold
    assert reported == {
        "learning the variance of vectors": (steps, steps),
        "measuring local density": (360, 360),
        "searching labelled queries": (360, 360),
    }


def with_number(vectors, value):
    changed = vectors.copy()
    changed[[3, 7], 2] = value
    return changed


UNUSABLE = {
    "nan": (lambda x, y: (with_number(x, np.nan), y), r"finite.*2 of 360 .*row 3\)"),
    "too large": (lambda x, y: (x.astype(float) * 1e300, y), "vectors: .*at most 1e.06, got 360"),
    "text": (lambda x, y: (x.astype(str), y), "vectors: expected .*real numbers.*got ndarray of"),
    "bool": (lambda x, y: (torch.from_numpy(x) > 0, y), "got Tensor of torch.bool"),
    "sparse": (lambda x, y: (torch.from_numpy(x).to_sparse(), y), "got Tensor of torch.float32, .*sparse"),
    "complex": (lambda x, y: (x * 1j, y), "vectors: expected .*real numbers.*complex"),
    "none": (lambda _, y: (None, y), "vectors: expected .*real numbers.*got NoneType"),
    "ragged": (lambda _, y: ([[1.0], [1.0, 2.0]], y), "vectors: expected .*real numbers"),
    "no vectors": (lambda x, y: (x[:0], y[:0]), r"vectors: .* got shape \(0, 16\)"),
    "no labels": (lambda x, _: (x, None), "labels: expected 360, one per vector, got none"),
    "label nan": (lambda x, y: (x, [*y[:-2], None, np.nan]), "every vector, got 2 of 360"),
    "one class": (lambda x, y: (x, y * 0), "at least 4 classes, got 1"),
    "too few": (lambda x, y: (x[::8], y[::8]), "at least 50 labelled queries, got 45 "),
    "no two alike": (lambda x, _: (x, range(360)), "4 classes with two vectors"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_cannot_be_used_is_one_error_before_the_work(known, name):
    reported = []
    change, message = UNUSABLE[name]
    vectors, labels = change(known.vectors, known.labels)
    with pytest.raises(sf.InvalidArgument, match=message):
        sf.calibrate(vectors, labels, progress=lambda *what: reported.append(what))
    assert reported == []
