"""Searches of an index that is calibrated by labels."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from class_folders import write_pictures
from clusters import DIM, SPACE, cluster_index, gaussians
from label_galleries import Labelled, overlapping

import surefind as sf
from surefind import metrics
from surefind.confidence.calibrate import CalibrationTargets
from surefind.confidence.conformal import VERDICTS
from surefind.confidence.explain import made_with
from surefind.confidence.label_model import prior_model
from surefind.encoders.serialization import class_hashes
from surefind.engines.base import Space
from surefind.errors import InvalidArgument
from surefind.search.hits import SearchResult
from surefind.search.index import Index

TARGETS = CalibrationTargets(precision=0.75, probability=0.8, miss_rate=0.2, novelty_level=0.05)
CLASSES, FOREIGN = 40, 20  # in the gallery, and others


def parts(seed: int) -> list[Labelled]:
    """A gallery with twelve images of each class; two sets of queries; queries of other classes."""
    whole = overlapping(CLASSES + FOREIGN, 24, seed=seed, noise=0.45)
    number, known = np.arange(len(whole.codes)) % 24, whole.codes < CLASSES
    chosen = (known & (number < 12), known & (number % 2 == 0), known & (number % 2 == 1))
    chosen = (chosen[0], *(its & (number >= 12) for its in chosen[1:]), ~known & (number < 12))
    return [whole.at(rows) for rows in chosen]


def made_index(folder: Path, gallery: Labelled, asked: Labelled | None = None, **more) -> Index:
    index = cluster_index(folder, gallery.embeddings, gallery.labels)
    queries = None if asked is None else asked.embeddings
    labels = None if asked is None else asked.labels
    index.calibrate(queries, labels=labels, targets=TARGETS, **more)
    return index


def is_right(results: list[SearchResult], asked: Labelled) -> np.ndarray:
    return np.array([its.label == label for its, label in zip(results, asked.labels, strict=True)])


GALLERY, KNOWN, FRESH, STRANGERS = parts(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("labels") / "index"
    made_index(place, GALLERY, KNOWN).close()
    return place


@pytest.fixture
def index(folder, tmp_path) -> Index:
    return Index.open(shutil.copytree(folder, tmp_path / "index"))


class Population:
    """Answers to fresh queries, and to those of classes that the gallery has not."""

    def __init__(self, folder: Path) -> None:
        self.fresh, self.strangers, self.labels, self.right, self.nearest = [], [], [], [], []
        for seed in range(3):
            gallery, known, fresh, strangers = parts(seed)
            with made_index(folder / str(seed), gallery, known) as index:
                found = index.search(fresh.embeddings, k=1)
                self.fresh += found
                self.labels += fresh.labels
                self.right += is_right(found, fresh).tolist()
                first = index.search(fresh.embeddings, k=1, ranking="mean")
                names = zip(first, fresh.labels, strict=True)
                self.nearest += [its.hits[0].label == label for its, label in names]
                self.strangers += index.search(strangers.embeddings, k=1)

    def p_values(self, of: list[SearchResult]) -> np.ndarray:
        return np.array([its.novelty_p_value for its in of])


@pytest.fixture(scope="module")
def population(tmp_path_factory) -> Population:
    return Population(tmp_path_factory.mktemp("population"))


# how good the answers are


def test_the_label_is_right_more_often_than_that_of_the_nearest_image(population):
    assert np.mean(population.right) > np.mean(population.nearest) + 0.05


def test_label_confidence_is_calibrated_on_fresh_queries(population):
    sure = torch.tensor([its.label_confidence for its in population.fresh], dtype=torch.float64)
    assert metrics.debiased_calibration_error(sure, torch.tensor(population.right)) < 0.05
    assert sure.std() > 0.1


def test_results_called_a_match_are_as_precise_as_guaranteed(population):
    called = [its.verdict == "match" and its.guaranteed for its in population.fresh]
    assert np.mean(called) > 0.2
    assert np.array(population.right)[called].mean() >= TARGETS.precision


def test_label_sets_miss_no_more_than_asked(population):
    asked = zip(population.fresh, population.labels, strict=True)
    missed = np.mean([label not in its.label_set for its, label in asked])
    assert missed <= TARGETS.miss_rate + 0.04
    assert np.mean([len(its.label_set) for its in population.fresh]) < 5


def test_p_values_of_genuine_queries_are_valid_and_those_of_strangers_smaller(population):
    genuine, strange = map(population.p_values, (population.fresh, population.strangers))
    for level in (0.05, 0.2, 0.5, 0.8):
        assert level / 2 - 0.03 < np.mean(genuine <= level) < level + 0.03  # twice the smaller one
    p_values = torch.from_numpy(np.r_[genuine, strange])
    unknown = torch.arange(len(p_values)) >= len(genuine)
    assert metrics.auroc(-p_values, unknown) > 0.65


# what an answer says


def test_an_answer_has_labels_with_probabilities_and_a_set(index):
    for result in index.search(FRESH.embeddings[:40], k=7):
        assert result.label == next(iter(result.labels)) == result.label_set[0]
        assert result.label_confidence == result.labels[result.label] == result.confidence
        assert list(result.labels.values()) == sorted(result.labels.values(), reverse=True)
        assert 0 < sum(result.labels.values()) < 1
        assert result.label_set == tuple(result.labels)[: len(result.label_set)]
        assert result.verdict in VERDICTS and result.uncalibrated is None
        for hit in result.hits:
            assert hit.confidence == pytest.approx(result.labels[hit.label])


def test_hits_are_ordered_by_confidence_and_those_of_a_label_by_distance(index):
    for result in index.search(FRESH.embeddings[:20], k=20):
        keys = [(-hit.confidence, hit.distance) for hit in result.hits]
        assert keys == sorted(keys) and result.ranking == "confidence"
    by_mean = index.search(FRESH.embeddings[:20], k=20, ranking="mean")
    for result, other in zip(by_mean, index.search(FRESH.embeddings[:20], k=20), strict=True):
        assert [hit.distance for hit in result.hits] == sorted(hit.distance for hit in result.hits)
        assert {hit.id for hit in result.hits} == {hit.id for hit in other.hits}
        assert (result.label, result.verdict) == (other.label, other.verdict)


def test_ranking_by_confidence_needs_a_calibration(tmp_path):
    plain = cluster_index(tmp_path / "index", GALLERY.embeddings, GALLERY.labels)
    with pytest.raises(sf.InvalidArgument, match="ranking.*the index is not calibrated"):
        plain.search(FRESH.embeddings[:1], ranking="confidence")
    (result,) = plain.search(FRESH.embeddings[:1])
    assert (result.ranking, result.label, result.labels) == ("mean", None, {})
    assert result.hits[0].label is not None  # is known without a calibration


def test_a_hit_beyond_the_twentieth_has_the_confidence_of_its_label_if_that_is_known(index):
    beyond = 0
    for near, far in zip(
        index.search(FRESH.embeddings[:9], k=20), index.search(FRESH.embeddings[:9], k=60), strict=True
    ):
        assert (near.labels, near.label_set, near.verdict) == (far.labels, far.label_set, far.verdict)
        for hit in far.hits:
            assert hit.confidence == pytest.approx(far.labels.get(hit.label))
            beyond += hit.confidence is None
    assert beyond


@pytest.mark.parametrize(
    "asked", [{"where": "label != class 3"}, {"expand": 3}, {"ranking": "expected"}, {"ranking": "mean"}]
)
def test_every_search_has_confidence_and_only_plain_ones_a_guarantee(index, asked):
    results = index.search(FRESH.embeddings[:30], **asked)
    assert all(0 < its.label_confidence < 1 for its in results)
    assert {its.guaranteed for its in results} == {asked == {"ranking": "mean"}}
    assert {its.guaranteed for its in index.search(FRESH.embeddings[:30])} == {True}
    if "where" in asked:
        assert "class 3" not in {label for its in results for label in its.labels}


def test_several_views_are_one_answer_without_a_guarantee(index):
    several = index.search_views(FRESH.embeddings[:3])
    assert several.label_confidence is not None and not several.guaranteed
    one = index.search_views(FRESH.embeddings[:1])
    assert one.labels == pytest.approx(index.search(FRESH.embeddings[:1])[0].labels)


@pytest.mark.parametrize("k", [1, 30])
def test_copies_of_the_query_are_matches(index, k):
    query = GALLERY.embeddings[[7]]
    index.add_embeddings(
        gaussians(np.repeat(GALLERY.vectors[[7]], 24, axis=0)),
        [f"copy-{n}" for n in range(24)],
        metadata=[{"label": GALLERY.labels[7]}] * 24,
    )
    (result,) = index.search(query, k=k)
    assert (result.verdict, result.confidence, result.label_confidence) == ("match", 1, 1)
    assert result.labels == {GALLERY.labels[7]: 1} and result.novelty_p_value == 1
    same = [hit for hit in result.hits if hit.distance == 0]
    assert len(same) == min(k, 25) and {hit.confidence for hit in same} == {1.0}


def test_an_image_of_the_index_is_judged_as_if_it_were_not_in_it(index, tmp_path):
    for row in (0, 100, 333):
        with index.snapshot(tmp_path / str(row)) as lacking:
            lacking.remove([f"row-{row}"])
            (want,) = lacking.search(GALLERY.embeddings[[row]], k=6, ranking="mean")
        got = index.neighbours(f"row-{row}", k=6, ranking="mean")
        assert [hit.id for hit in got.hits] == [hit.id for hit in want.hits]
        for label, probability in want.labels.items():  # the size of its class is no evidence
            assert got.labels[label] == pytest.approx(probability, abs=0.03)


@pytest.mark.parametrize("rows", [1, 5, 19])
def test_a_gallery_of_few_images_answers(tmp_path, rows):
    index = made_index(tmp_path / "index", GALLERY.at(np.arange(0, 480, 24)[:rows]))
    (result,) = index.search(FRESH.embeddings[:1], k=30)
    assert len(result.hits) == rows and len(result.labels) == rows
    assert 0 < result.label_confidence <= 1 and result.verdict in VERDICTS


def test_images_without_a_label_have_no_confidence_and_come_last(tmp_path):
    codes = np.where(np.arange(480) % 4 == 0, -1, GALLERY.codes)
    index = Index.create_empty(tmp_path / "index", SPACE, fingerprint="x", kind="flat")
    labels = Labelled(GALLERY.vectors, codes).labels
    index.add_embeddings(
        GALLERY.embeddings,
        [str(row) for row in range(480)],
        metadata=[{} if label is None else {"label": label} for label in labels],
    )
    assert index.calibrate().origin.queries == 360
    for result in index.search(FRESH.embeddings[:9], k=20):
        unknown = [hit.label is None for hit in result.hits]
        assert unknown == sorted(unknown) and any(unknown)
        assert [hit.confidence is None for hit in result.hits] == unknown


# which calibration


@pytest.mark.parametrize(("labelled", "evidence"), [(0.6, "labels"), (0.4, "neighbourhoods")])
def test_labels_are_used_if_half_of_the_images_have_one(tmp_path, labelled, evidence):
    index = Index.create_empty(tmp_path / "index", SPACE, fingerprint="x", kind="flat")
    facts = [{"label": label} if row % 10 < 10 * labelled else {} for row, label in enumerate(GALLERY.labels)]
    index.add_embeddings(GALLERY.embeddings, [str(row) for row in range(480)], metadata=facts)
    made = index.calibrate(KNOWN.embeddings, labels=KNOWN.labels, learn_variance=False)
    assert made.origin.evidence == evidence


def test_the_field_of_the_labels_can_be_named(tmp_path):
    index = Index.create_empty(tmp_path / "index", SPACE, fingerprint="x", kind="flat")
    facts = [{"species": label} for label in GALLERY.labels]
    index.add_embeddings(GALLERY.embeddings, [str(row) for row in range(480)], metadata=facts)
    assert index.calibrate_itself() is None
    made = index.calibrate(label="species")
    assert (made.origin.field, made.origin.queries) == ("species", 480)
    (result,) = Index.open(tmp_path / "index").search(FRESH.embeddings[:1])
    assert result.label in GALLERY.labels and result.hits[0].label == result.label


@pytest.fixture(scope="module")
def encoder() -> sf.Encoder:
    return sf.Encoder.create(sf.EncoderConfig(backbone="tiny", dim=16), seed=1).eval()


def test_an_index_of_class_folders_calibrates_itself(tmp_path, encoder):
    photos = write_pictures(tmp_path / "photos", classes=6, per_class=6)
    index = Index.create(tmp_path / "index", encoder, photos)
    assert (index.calibration.origin.evidence, index.calibration.origin.queries) == ("labels", 36)
    assert Index.create(tmp_path / "plain", encoder, photos, calibrate=False).calibration is None
    files = sorted(photos.rglob("*.png"))
    unlabelled = Index.create(tmp_path / "unlabelled", encoder, files)
    assert unlabelled.calibration is None


def test_the_prior_answers_for_few_images_and_for_classes_trained_with(tmp_path, encoder):
    photos = write_pictures(tmp_path / "photos", classes=6, per_class=3)
    few = Index.create(tmp_path / "few", encoder, photos)
    more = write_pictures(tmp_path / "more", classes=6, per_class=6, seed=1)
    known = sf.Encoder.create(sf.EncoderConfig(backbone="tiny", dim=16), seed=1).eval()
    known.trained_with = class_hashes(path.name for path in more.iterdir())
    trained = Index.create(tmp_path / "trained", known, more)
    for index, why in ((few, "18 labelled images of 6"), (trained, "trained with all of the 6")):
        made = index.calibration
        assert (made.origin.evidence, made.model) == ("prior", prior_model())
        assert why in made.origin.remarks[0]
        assert made_with(made) == "prior calibration of surefind, not fitted to this index"
        result = index.search(next(photos.rglob("*.png")))
        assert result.label is not None and not result.guaranteed
        with pytest.raises(sf.InvalidArgument, match="got the prior calibration"):
            index.drift(random_queries(index.space.dim))


def random_queries(dim: int) -> sf.Gaussians:
    return sf.Gaussians(torch.randn(60, dim), torch.full((60,), 0.1))


def test_queries_without_any_label_are_refused(index):
    before = index.calibration
    for labels in ([None] * 40, [""] * 40):
        with pytest.raises(sf.InvalidArgument, match="queries with labels.*got 40 without"):
            index.calibrate(KNOWN.embeddings[:40], labels=labels)
    assert index.calibration == before


# a gallery that changes


def undated(index: Index):
    made = index.calibration
    return replace(made, origin=replace(made.origin, created=""))


@pytest.mark.parametrize("given", [True, False])
def test_calibrating_again_with_the_kept_queries_gives_the_same(tmp_path, given):
    index = made_index(tmp_path / "index", GALLERY, KNOWN if given else None)
    before = undated(index)
    again = Index.open(tmp_path / "index")
    again.calibrate(again=True)
    assert undated(again) == before
    assert before.origin.source == ("embeddings" if given else "the index itself")


@pytest.mark.parametrize(("more", "stale"), [(96, False), (97, True)])
def test_a_gallery_that_grows_by_more_than_a_fifth_is_calibrated_again(index, more, stale):
    before = undated(index)
    added = overlapping(20, 5, seed=9).at(np.arange(more))
    facts = [{"label": label} for label in added.labels]
    index.add_embeddings(added.embeddings, [f"new-{n}" for n in range(more)], metadata=facts)
    after = index.calibration
    assert (undated(index) != before) == stale
    assert after.origin.gallery == 480 + more * stale
    assert after.origin.queries == len(KNOWN.labels)
    assert {its.guaranteed for its in index.search(FRESH.embeddings[:3])} == {after.guarantee.threshold is not None}


def test_a_gallery_that_shrinks_to_nothing_and_comes_back_is_calibrated_again(index):
    threshold = index.calibration.guarantee.threshold
    names = [f"row-{row}" for row in range(480)]
    rows = index.items(names)
    assert index.remove(names) == 480
    assert index.calibration.origin.evidence == "prior"
    assert index.search(FRESH.embeddings[:1])[0].hits == ()
    index.add_embeddings(rows.embeddings, rows.ids, metadata=rows.metadata)
    assert index.calibration.guarantee.threshold == threshold is not None


def test_nothing_is_guaranteed_for_a_stale_gallery_or_that_of_another(index, tmp_path, monkeypatch):
    query = FRESH.embeddings[:20]
    assert {its.guaranteed for its in index.search(query)} == {True}
    other = cluster_index(tmp_path / "other", KNOWN.embeddings, KNOWN.labels)
    other.adopt(index.calibrated)
    assert {its.guaranteed for its in other.search(query)} == {False}
    monkeypatch.setattr(index, "recalibrate_if_stale", lambda: None)
    index.remove([f"row-{row}" for row in range(97)])
    assert {its.guaranteed for its in index.search(query)} == {False}


def test_a_calibration_by_labels_is_read_again_as_it_was(index, tmp_path):
    again = Index.open(tmp_path / "index")
    assert again.calibration == index.calibration
    found, wanted = (its.search(FRESH.embeddings[:5]) for its in (again, index))
    assert found == wanted


def test_other_queries_drift_and_fresh_ones_hardly(index):
    moved = gaussians(FRESH.vectors + np.random.default_rng(0).normal(size=FRESH.vectors.shape))
    drifts = {drift.name: drift.statistic for drift in index.drift(moved)}
    assert "confidence" in drifts
    alike = {drift.name: drift.statistic for drift in index.drift(FRESH.embeddings)}
    assert max(alike.values(), default=0) < 0.2 < max(drifts.values())


def test_an_index_in_expected_order_answers_with_labels_too(tmp_path):
    space = Space("gaussian", DIM, "expected")
    index = Index.create_empty(tmp_path / "index", space, fingerprint="x", kind="flat")
    facts = [{"label": label} for label in GALLERY.labels]
    index.add_embeddings(GALLERY.embeddings, [str(row) for row in range(480)], metadata=facts)
    index.calibrate(KNOWN.embeddings, labels=KNOWN.labels)
    assert is_right(index.search(FRESH.embeddings), FRESH).mean() > 0.5


def test_an_index_without_labels_cannot_be_judged_by_them(tmp_path):
    space = Space(GALLERY.embeddings.family, GALLERY.embeddings.dim, "mean")
    with Index.create_empty(tmp_path / "index", space, fingerprint="f" * 64) as index:
        index.add_embeddings(GALLERY.embeddings[:60], [str(row) for row in range(60)])
        with pytest.raises(InvalidArgument, match=r"images with labels \(label\), got 60 without"):
            index.calibrate(use_labels=True)
        assert index.calibration is None
