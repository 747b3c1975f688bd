"""Calibration of an index without labels: its labelled queries, copies, and errors."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from class_folders import write_pictures
from clusters import DIM, FINGERPRINT, SPACE, cluster_index, clusters, gaussians, rows_of, thirds

import surefind as sf
from surefind.confidence import calibrate as calibrating
from surefind.confidence.calibrate import CalibrationTargets
from surefind.engines.base import Space
from surefind.images.catalog import Catalog
from surefind.search.folder import IndexFolder
from surefind.search.index import Index

(GALLERY, LABELS), (KNOWN, KNOWN_LABELS), (FRESH, _) = thirds(classes=40, seed=3)


@pytest.fixture(scope="module")
def encoder() -> sf.Encoder:
    return sf.Encoder.create(sf.EncoderConfig(backbone="tiny", dim=16), seed=1).eval()


@pytest.fixture(scope="module")
def catalog(tmp_path_factory) -> Catalog:
    """72 pictures; every third has the label of another class, so that hits are often wrong."""
    root = write_pictures(tmp_path_factory.mktemp("photos"), classes=12, per_class=6)
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.png"))
    labels = [f"class{(row // 6 + (row % 3 == 0)) % 12:02d}" for row in range(72)]
    return Catalog(root, tuple(paths), labels=tuple(labels))


def answers(index: Index, queries) -> list[tuple]:
    return [(result.confidence, result.verdict) for result in index.search(queries)]


def documents(index: Path) -> dict[str, bytes]:
    return IndexFolder(index).documents.read("calibration")


def copied(catalog: Catalog, folder: Path) -> Catalog:
    """The same pictures elsewhere, under other names."""
    names = [f"{row}.png" for row in range(len(catalog))]
    folder.mkdir()
    for path, name in zip(catalog.files, names, strict=True):
        shutil.copy(path, folder / name)
    return Catalog(folder, tuple(names), labels=catalog.labels)


def test_pictures_that_are_in_the_index_are_not_their_own_hits(tmp_path, encoder, catalog):
    """Known by their content: so they give what the rows of the index themselves give."""
    index = Index.create(tmp_path / "index", encoder, catalog, calibrate=False)
    own = index.calibrate(use_labels=False, learn_variance=False)
    elsewhere = copied(catalog, tmp_path / "copies")
    pictures = index.calibrate(elsewhere, use_labels=False, learn_variance=False)
    assert pictures.origin.source == str(tmp_path / "copies")
    assert own.quality.right < 0.9  # 1 if they were their own hits
    assert pictures.curve.right == own.curve.right
    assert pictures.curve.confidence == pytest.approx(own.curve.confidence, abs=1e-3)


def test_only_the_queries_of_a_catalog_are_used(tmp_path, encoder, catalog):
    index = Index.create(tmp_path / "index", encoder, catalog, calibrate=False)
    asks = replace(catalog, queries=tuple(row < 60 for row in range(72)))
    assert index.calibrate(asks, use_labels=False, learn_variance=False).origin.queries == 60


def test_pictures_without_labels_are_refused(tmp_path, encoder, catalog):
    index = Index.create(tmp_path / "index", encoder, catalog, calibrate=False)
    with pytest.raises(sf.InvalidArgument, match=r"queries with labels.*got 72 without"):
        index.calibrate(replace(catalog, labels=()), use_labels=False, learn_variance=False)
    assert index.calibration is None


def test_own_rows_search_the_others(tmp_path):
    index = cluster_index(tmp_path / "index", GALLERY, LABELS)
    origin = index.calibrate(use_labels=False, learn_variance=False).origin
    assert (origin.queries, origin.classes, origin.gallery) == (len(LABELS), 40, len(LABELS))
    assert (origin.source, origin.without_match) == ("the index itself", 0)
    assert 0.5 < index.calibration.quality.right < 0.8  # 1 if they were their own hits


def test_equal_embeddings_with_two_labels_may_be_one_row_of_the_index(tmp_path):
    twice = type(GALLERY).cat([GALLERY, GALLERY[[0]]])
    index = cluster_index(tmp_path / "index", GALLERY, LABELS)
    made = index.calibrate(twice, labels=[*LABELS, LABELS[-1]], use_labels=False, learn_variance=False)
    assert made.origin.queries == len(GALLERY) + 1


def with_copies(embeddings, labels: list[str], *, rounding: float = 0.0):
    """With three in ten of them once more."""
    again = np.random.default_rng(0).permutation(len(labels))[: len(labels) * 3 // 10]
    noise = 1 + rounding * np.random.default_rng(1).normal(size=(len(again), DIM))
    mean, var = embeddings.mean.numpy(), embeddings.var.numpy()
    copies = gaussians(mean[again] * noise, var=var[again])
    return sf.Gaussians.cat([embeddings, copies]), [*labels, *(labels[row] for row in again)]


def hard() -> tuple[sf.Gaussians, list[str]]:
    """Classes that overlap so much that the first hit is seldom right."""
    random = np.random.default_rng(0)
    mean = random.normal(size=(40, DIM)).repeat(12, axis=0)
    labels = [f"class {row // 12}" for row in range(480)]
    return gaussians(mean + 1.2 * random.normal(size=mean.shape)), labels


@pytest.mark.parametrize("rounding", [0.0, 1e-7])
def test_copies_make_neither_first_hits_right_nor_a_guarantee(tmp_path, rounding):
    plain = cluster_index(tmp_path / "plain", *hard())
    again = cluster_index(tmp_path / "again", *with_copies(*hard(), rounding=rounding))
    targets = CalibrationTargets(precision=0.9)
    wanted, found = (
        index.calibrate(targets=targets, use_labels=False, learn_variance=False) for index in (plain, again)
    )
    assert found.quality.nearest_right == wanted.quality.nearest_right < 0.2
    assert found.quality.right == pytest.approx(wanted.quality.right, abs=0.02)
    assert found.guarantee.threshold is wanted.guarantee.threshold is None
    assert found.guarantee.best == wanted.guarantee.best == 0
    assert (found.origin.queries, found.origin.gallery, found.origin.copies) == (480, 624, 144)
    assert wanted.origin.copies == 0


def test_with_copies_as_much_is_guaranteed_as_without(tmp_path):
    plain = cluster_index(tmp_path / "plain", GALLERY, LABELS)
    again = cluster_index(tmp_path / "again", *with_copies(GALLERY, LABELS))
    targets = CalibrationTargets(precision=0.7)
    wanted, found = (
        index.calibrate(targets=targets, use_labels=False, learn_variance=False) for index in (plain, again)
    )
    assert found.quality.nearest_right == wanted.quality.nearest_right
    assert found.quality.auroc == pytest.approx(wanted.quality.auroc, abs=0.03)
    assert found.guarantee.coverage == pytest.approx(wanted.guarantee.coverage, abs=0.15)


def test_embeddings_are_not_helped_by_copies_in_the_index(tmp_path):
    gallery, labels = with_copies(GALLERY, LABELS)
    index = cluster_index(tmp_path / "index", gallery, labels)
    own = index.calibrate(use_labels=False, learn_variance=False)
    given = index.calibrate(gallery, labels=labels, use_labels=False, learn_variance=False)
    assert given.quality == own.quality
    assert own.origin.copies == 144
    assert given.origin.copies == 288  # of the queries given, and of the rows of the index


def test_a_search_still_finds_copies(tmp_path):
    index = cluster_index(tmp_path / "index", *with_copies(GALLERY, LABELS))
    index.calibrate(use_labels=False, learn_variance=False)
    (result,) = index.search(GALLERY[:1], k=1)
    assert result.hits[0].distance == 0


def test_a_model_that_gives_all_images_one_vector_is_one_clear_error(tmp_path):
    index = cluster_index(tmp_path / "index", gaussians(np.ones((480, DIM))), LABELS)
    with pytest.raises(sf.InvalidArgument, match="no copies of another, got 40 of 480"):
        index.calibrate(use_labels=False, learn_variance=False)


def test_learned_variance_is_stored_and_used(tmp_path, monkeypatch):
    monkeypatch.setattr(calibrating, "STEPS", 30)
    index = cluster_index(tmp_path / "index", *clusters(vague=True))
    calibration = index.calibrate(use_labels=False, seed=1)
    assert {"log_var", "neighbour_log_var"} <= set(calibration.model.names)
    assert index.calibrated.heads is not None
    query = clusters(seed=9)[0][:20]
    assert answers(Index.open(tmp_path / "index"), query) == answers(index, query)
    again = cluster_index(tmp_path / "again", *clusters(vague=True)).calibrate(use_labels=False, seed=1)
    assert again.model == calibration.model


def test_one_query_of_each_class_is_enough_though_no_variance_is_learned(tmp_path):
    gallery, known, _ = thirds(classes=60, seed=5)
    index = cluster_index(tmp_path / "index", *gallery)
    first = [known[1].index(f"class {code}") for code in range(60)]
    index.calibrate(known[0][first], labels=[known[1][row] for row in first], use_labels=False)
    assert index.calibrated.heads is None
    assert index.calibration.origin.classes == 60


def test_queries_without_a_label_are_left_out(index):
    labels = [None, float("nan"), "", *KNOWN_LABELS[3:]]
    assert index.calibrate(KNOWN, labels=labels, use_labels=False, learn_variance=False).origin.queries == 477


def test_an_index_in_expected_order_is_calibrated_in_that_order(tmp_path):
    space = Space("gaussian", DIM, "expected")
    index = Index.create_empty(tmp_path / "index", space, fingerprint=FINGERPRINT)
    rows = rows_of(*clusters(vague=True))
    index.add_embeddings(rows.embeddings, rows.ids, metadata=rows.metadata)
    assert index.calibrate(use_labels=False, learn_variance=False).origin.ranking == "expected"
    assert index.search(FRESH[:1])[0].confidence is not None
    assert index.search(FRESH[:1], ranking="mean")[0].confidence is None


def test_places_serve_as_labels(tmp_path):
    index = Index.create_empty(tmp_path / "index", SPACE, fingerprint=FINGERPRINT)
    codes = [int(label[6:]) for label in LABELS]
    facts = [{"east": 100.0 * code, "north": 0.0} for code in codes]
    facts[0] = {}
    index.add_embeddings(GALLERY, [str(n) for n in range(len(codes))], metadata=facts)
    origin = index.calibrate().origin
    assert (origin.queries, origin.classes) == (len(codes) - 1, len(codes) - 1)


def unlabelled(folder: Path) -> Index:
    index = Index.create_empty(folder, SPACE, fingerprint=FINGERPRINT)
    index.add_embeddings(GALLERY, [str(n) for n in range(len(LABELS))])
    return index


@pytest.mark.parametrize(
    ("queries", "labels", "message"),
    [
        (KNOWN[:10], KNOWN_LABELS[:10], "at least 50 labelled queries, got 10"),
        (KNOWN[:60], ["cat"] * 60, "at least 4 classes, got 1 .of 60 queries"),
        (KNOWN, None, "expected 480, one for each query, got none"),
        (KNOWN, KNOWN_LABELS[:7], "expected 480, one for each query, got 7"),
        (KNOWN, [None] * 480, "queries with labels.*got 480 without"),
        (KNOWN[:0], [], "queries with labels.*got no queries"),
        (KNOWN, [f"other {n % 9}" for n in range(480)], "9 classes without another image in the index"),
        (gaussians(1.001 * GALLERY.mean.numpy()), LABELS, "first hit is wrong, got 0"),
        (gaussians(torch.zeros(60, 3).numpy()), LABELS[:60], "dimensions, as in the index"),
    ],
)
def test_queries_that_will_not_do_are_one_clear_error_and_nothing_is_written(index, tmp_path, queries, labels, message):
    before = documents(tmp_path / "index")
    with pytest.raises(sf.InvalidArgument, match=message):
        index.calibrate(queries, labels=labels, use_labels=False, learn_variance=False)
    assert documents(tmp_path / "index") == before
    assert index.search(FRESH[:1])[0].confidence is not None


def test_an_index_without_labels_is_refused_before_the_work(tmp_path):
    index = unlabelled(tmp_path / "index")
    with pytest.raises(sf.InvalidArgument, match=r"labels.*got 480 without"):
        index.calibrate()
    told: list[str] = []
    with pytest.raises(sf.InvalidArgument, match="got 480 images without"):
        index.calibrate(
            KNOWN,
            labels=KNOWN_LABELS,
            use_labels=False,
            learn_variance=False,
            progress=lambda what, *_: told.append(what),
        )
    assert told == []
    assert documents(tmp_path / "index") == {}
