"""Copies against a loop over all pairs, local density against brute force."""

import numpy as np
import pytest
from brute_force import nearest_rows, squared
from galleries import FAMILIES, random_rows
from memory_engine import MemoryEngine
from stores import made

import surefind as sf
from surefind.confidence import neighbours as module
from surefind.confidence.neighbours import ROUNDING, WIDTH, LocalDensity, first_copies, is_copy, known_density
from surefind.engines.base import Rows, Space
from surefind.engines.embedded.engine import create
from surefind.engines.knn import nearest

DIM = 4


def space(family: str = "gaussian", ranking: str = "mean") -> Space:
    return Space(family, DIM, ranking)


def engine_with(place, rows: Rows, *, kind: str = "flat", family: str = "gaussian"):
    engine = made(place, kind=kind, space=space(family))
    engine.add(rows)
    return engine


def brute_force(rows: Rows, row: int, count: int = WIDTH) -> list[float]:
    means = rows.embeddings.mean.double().numpy()
    near = nearest_rows(means[row], means, but=[row], count=count)
    return [squared(means[row], means[other]) for other in near]


def vectors_of(engine, ids):
    """As the engine keeps them."""
    blocks = list(engine.scan())
    names = engine.rows(np.concatenate([block.keys for block in blocks])).ids
    vectors = np.concatenate([block.vectors for block in blocks])
    return vectors[[names.index(name) for name in ids]]


@pytest.mark.parametrize("family", FAMILIES)
def test_they_are_those_of_brute_force(tmp_path, family):
    rows = random_rows(50, DIM, seed=0, family=family)
    engine = engine_with(tmp_path / "store", rows, family=family)
    around = LocalDensity.of(engine)
    assert len(around) == 50
    for row, found in enumerate(around.knn_distances(vectors_of(engine, rows.ids))):
        assert found == pytest.approx(brute_force(rows, row), rel=1e-5)


def test_by_expected_distance_they_are_the_means_of_the_expected_neighbours(tmp_path):
    rows = random_rows(60, DIM, seed=1)
    engine = MemoryEngine(space(ranking="expected"))
    engine.add(rows)
    found = LocalDensity.of(engine).knn_distances(vectors_of(engine, rows.ids))
    means, var = rows.embeddings.mean.double().numpy(), rows.embeddings.var.double().numpy()
    for row, its in enumerate(found):
        to_all = [squared(means[row], other) for other in means]
        others = [n for n in range(60) if n != row]
        near = sorted(others, key=lambda n: to_all[n] + DIM * var[n])[:WIDTH]
        wanted = sorted(to_all[n] for n in near)
        assert its == pytest.approx(wanted, rel=1e-5)


def test_many_rows_are_measured_in_batches(tmp_path, monkeypatch):
    engine = engine_with(tmp_path / "store", random_rows(50, DIM, seed=2))
    whole = LocalDensity.of(engine)
    monkeypatch.setattr(module, "MEASURED_AT_ONCE", 7)
    told: list[int] = []
    parts = LocalDensity.of(engine, progress=told.append)
    assert told == [7, 14, 21, 28, 35, 42, 49, 50]
    assert np.array_equal(parts.key_hashes, whole.key_hashes)
    assert np.array_equal(parts.distances, whole.distances)


def test_those_of_another_gallery_are_not_taken_for_its_own(tmp_path):
    first, second = (
        create(str(tmp_path / name), space(), {"gallery": name}, kind="flat") for name in ("first", "second")
    )
    first.add(random_rows(40, DIM, seed=1))
    rows = random_rows(40, DIM, seed=2)
    second.add(rows)
    others = LocalDensity.of(first)
    near = nearest(second, rows.embeddings[:1], 40, ranking="mean")
    found = known_density(second, others, near)
    assert np.array_equal(found[0], LocalDensity.of(second).knn_distances(near.vectors[0]))


def test_an_empty_gallery_knows_nobody(tmp_path):
    empty = LocalDensity.of(made(tmp_path / "store", space=space()))
    assert len(empty) == 0
    assert np.isnan(empty.knn_distances(np.zeros((1, DIM), np.float32))).all()
    assert len(LocalDensity.from_bytes(empty.to_bytes())) == 0


@pytest.mark.parametrize("copies", [2, 30])
def test_neither_a_row_nor_its_copies_are_its_neighbours(tmp_path, copies):
    rows = random_rows(60, DIM, seed=7)
    chosen = np.repeat(np.arange(60 // copies), copies).tolist()
    rows = Rows(rows.ids, rows.embeddings[chosen], rows.digests, rows.metadata)
    engine = engine_with(tmp_path / "store", rows)
    found = LocalDensity.of(engine)
    means = rows.embeddings.mean.double().numpy()
    for row, its in enumerate(found.knn_distances(vectors_of(engine, rows.ids))):
        own = [other for other in range(60) if chosen[other] == chosen[row]]
        near = nearest_rows(means[row], means, but=own, count=WIDTH)
        wanted = [squared(means[row], means[other]) for other in near]
        assert (its > 0).all()
        assert its == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("count", [1, 2, 10, 21, 22])
def test_where_there_are_fewer_neighbours_the_last_one_is_repeated(tmp_path, count):
    rows = random_rows(count, DIM, seed=8)
    engine = engine_with(tmp_path / "store", rows)
    found = LocalDensity.of(engine)
    for row, its in enumerate(found.knn_distances(vectors_of(engine, rows.ids))):
        near = brute_force(rows, row) or [0.0]
        wanted = (near + [near[-1]] * WIDTH)[:WIDTH]
        assert its == pytest.approx(wanted, rel=1e-5)


def first_by_hand(means: np.ndarray) -> list[int]:
    """The first row that each equals, found among all."""
    wide = means.astype(np.float64)
    found = []
    for row in wide:
        limit = ROUNDING * (np.square(row).sum() + np.square(wide).sum(axis=1))
        found.append(int((np.square(wide - row).sum(axis=1) <= limit).argmax()))
    return found


@pytest.mark.parametrize("dim", [1, 3, 8, 64])
def test_copies_are_those_of_a_loop_whatever_the_scale_of_the_vectors(dim):
    random = np.random.default_rng(dim)
    means = random.normal(size=(150, dim)) * np.exp(random.normal(0, 5, size=(150, 1)))
    rounded = means[20:70] * (1 + 2e-7 * random.normal(size=(50, dim)))
    apart = means[40:90] * (1 + 1e-3 * random.uniform(1, 2, size=(50, dim)))
    every = np.concatenate([means, means[:40], rounded, apart, np.zeros((3, dim))])
    every = every.astype(np.float32)
    assert first_copies(every).tolist() == first_by_hand(every)


def test_a_number_and_its_negative_zero_are_equal():
    assert first_copies(np.array([[0.0, 1.0], [-0.0, 1.0]], np.float32)).tolist() == [0, 0]


def test_no_rows_have_no_copies():
    assert first_copies(np.empty((0, 4), np.float32)).tolist() == []


def test_equal_digests_join_rows_and_no_digest_joins_none():
    means = np.eye(6, dtype=np.float32)
    means[5] = means[2]
    found = first_copies(means, ["a", "", "b", "", "a", "c"])
    assert found.tolist() == [0, 1, 2, 3, 0, 2]
    assert first_copies(means, ["a", "", "b", "c", "a", "a"]).tolist() == [0, 1, 0, 3, 0, 0]


def test_rows_of_other_labels_are_no_copies():
    means = np.ones((6, 3), np.float32)
    assert first_copies(means, labels=list("abcbca")).tolist() == [0, 1, 2, 1, 2, 0]


def test_the_same_picture_in_batches_of_other_sizes_is_a_copy_and_another_is_not():
    encoder = sf.Encoder.create(sf.EncoderConfig(backbone="tiny", dim=16), seed=1).eval()
    random = np.random.default_rng(0)
    pictures = list(random.integers(0, 255, (9, 24, 24, 3), dtype=np.uint8))
    together = encoder.encode(pictures).mean.double().numpy()
    alone = encoder.encode(pictures[:1]).mean.double().numpy()
    between, length = np.square(together - alone).sum(axis=1), np.square(together).sum(axis=1)
    assert is_copy(between, length, length[:1]).tolist() == [True, *[False] * 8]
