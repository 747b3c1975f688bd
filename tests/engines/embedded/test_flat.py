"""Exhaustive search of a mapped segment."""

import faiss
import numpy as np
import pytest
from galleries import random_embeddings
from stores import DIM, QUERIES, SPACE, filled, made, opened, some_rows

from surefind.engines.embedded import flat
from surefind.engines.embedded.flat import Flat, preface
from surefind.engines.embedded.selecting import Selection
from surefind.engines.embedded.snapshot import Part

MANY = SPACE.asking(random_embeddings(400, DIM, seed=7))


def part(place, rows: int = 300) -> Part:
    made(place).add(some_rows(rows, 1))
    return opened(place)._session.snapshot.parts[0]


def by_hand(vectors, query, k: int, mask) -> tuple[np.ndarray, np.ndarray]:
    distance = ((query[:, None].astype("f8") - vectors[None]) ** 2).sum(-1)
    distance[:, ~mask] = np.inf
    order = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distance, order, 1), order


def test_faiss_uses_the_vectors_where_they_lie_in_the_file(place):
    segment = part(place).segment
    index = segment.flat.index
    assert isinstance(index, faiss.IndexFlatL2)
    assert not index.codes.is_owned
    first = faiss.rev_swig_ptr(index.get_xb(), 1).ctypes.data
    assert first == segment.vectors.ctypes.data
    assert not segment.vectors.flags.writeable


@pytest.mark.parametrize("query", [QUERIES[:1], MANY], ids=["one", "many"])
@pytest.mark.parametrize("k", [1, 10, 300, 1000])
def test_all_vectors_are_searched(place, query, k: int):
    segment = part(place).segment
    found = segment.flat.search(query, k)
    distance, _ = by_hand(segment.vectors, query, k, np.ones(300, bool))
    np.testing.assert_allclose(found.distance, distance, atol=1e-5)
    # Which of two equally near rows comes first is a matter of rounding, and of the processor.
    every = np.square(query[:, None].astype(float) - segment.vectors[None]).sum(axis=2)
    np.testing.assert_allclose(np.take_along_axis(every, found.rows, 1), distance, atol=1e-5)
    assert all(len(set(rows)) == len(rows) for rows in found.rows.tolist())


@pytest.mark.parametrize("query", [QUERIES[:1], MANY], ids=["one", "many"])
@pytest.mark.parametrize("viewed", [True, False], ids=["viewed", "copied"])
@pytest.mark.parametrize("blocks", [1, 5])
def test_only_chosen_vectors_are_searched(place, monkeypatch, query, viewed: bool, blocks: int):
    segment = part(place).segment
    monkeypatch.setattr(flat, "GATHERED_BYTES", segment.vectors.nbytes // 3 // blocks)
    if not viewed:
        monkeypatch.setattr(segment.flat, "index", None)
    mask = np.random.default_rng(0).random(300) < 1 / 3
    found = segment.flat.search(query, 7, Selection(mask))
    distance, rows = by_hand(segment.vectors, query, 7, mask)
    assert np.array_equal(found.rows, rows)
    np.testing.assert_allclose(found.distance, distance, atol=1e-5)


def test_another_faiss_gives_the_same_answers_from_a_copy(place, monkeypatch):
    engine = filled(place)
    wanted = engine.search(QUERIES, 5)
    monkeypatch.setattr(flat, "preface", lambda rows, width: b"written by another faiss")
    other = opened(place)
    assert all(part.segment.flat.index is None for part in other._session.snapshot.parts)
    found = other.search(QUERIES, 5)
    assert np.array_equal(found.keys, wanted.keys)
    assert other._session.snapshot.parts[0].segment.flat.stored().ntotal == 20


def test_a_faiss_that_cannot_view_memory_is_no_obstacle(place, monkeypatch):
    vectors = np.random.default_rng(0).random((10, 4), dtype="f4")
    before = np.frombuffer(preface(10, 4), np.uint8)
    monkeypatch.delattr(faiss, "ZeroCopyIOReader")
    found = Flat(vectors, before=before).search(vectors, 1)
    assert np.array_equal(found.rows[:, 0], np.arange(10))


def test_more_neighbours_than_chosen_rows_are_not_made_up(place):
    mask = np.zeros(300, bool)
    mask[[5, 7]] = True
    for query in (QUERIES[:1], MANY):
        found = part(place / str(len(query))).segment.flat.search(query, 10, Selection(mask))
        assert found.rows.shape == (len(query), 2)
        assert set(found.rows.ravel()) == {5, 7}
