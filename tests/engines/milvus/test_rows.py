"""Rows go to the server in batches and come back as they were."""

import itertools

import numpy as np
import pytest
import torch
from galleries import random_embeddings, random_rows

import surefind as sf
from surefind.engines.base import Rows
from surefind.engines.milvus import queries
from surefind.engines.milvus.queries import BYTES_AT_ONCE, among, portions
from surefind.engines.space import Space
from surefind.errors import InvalidArgument


def rows_of(ids, *, metadata=None, digests=None, seed=0) -> Rows:
    return Rows(
        tuple(ids),
        random_embeddings(len(ids), 4, seed),
        tuple(digests or ("",) * len(ids)),
        tuple(metadata or ({},) * len(ids)),
    )


def keys(*ids):
    return np.array(ids, dtype=object)


@pytest.mark.milvus
def test_variances_keep_all_their_digits(engine):
    var = torch.tensor([1e-12, 1 / 3, 0.1, 12345.678, 1e9], dtype=torch.float32)
    rows = Rows(tuple("abcde"), sf.Gaussians(torch.ones(5, 4), var), ("",) * 5, ({},) * 5)
    engine.add(rows)
    assert torch.equal(engine.rows(keys(*"abcde")).embeddings.spread, var)
    (block,) = engine.scan()
    assert np.array_equal(block.var, var.double().numpy())


@pytest.mark.milvus
def test_many_rows_go_in_several_batches(engine, monkeypatch):
    monkeypatch.setattr(queries, "BATCH", 10_000)
    rows = random_rows(500, 4, 0)
    batches = queries.batches(rows, engine.space)
    assert len(batches) > 5
    assert [row["id"] for batch in batches for row in batch] == list(rows.ids)
    engine.add(rows)
    assert engine.count() == 500
    assert engine.rows(keys("row-0", "row-499")).metadata == (rows.metadata[0], rows.metadata[499])


@pytest.mark.milvus
def test_a_scan_sees_more_rows_than_a_page(engine):
    count = queries.AT_ONCE + 5000
    ids = tuple(f"{number:x}" for number in range(count))
    mean = torch.randn(count, 4, generator=torch.Generator().manual_seed(0))
    var = torch.linspace(0.1, 9, count)
    engine.add(Rows(ids, sf.Gaussians(mean, var), ("",) * count, ({},) * count))
    blocks = list(engine.scan())
    assert len(blocks) > 1
    seen = [name for block in blocks for name in block.keys]
    assert len(seen) == count and set(seen) == set(ids)
    place = {name: number for number, name in enumerate(ids)}
    order = [place[name] for name in seen]
    vectors = np.concatenate([block.vectors for block in blocks])
    assert np.array_equal(vectors, engine.space.gallery_vectors(sf.Gaussians(mean, var))[order])
    assert engine.remove(ids) == count and engine.count() == 0


@pytest.mark.milvus
def test_a_digest_is_found_behind_many_rows_of_another(engine, monkeypatch):
    monkeypatch.setattr(queries, "AT_ONCE", 10)
    ids = [f"{number:03}" for number in range(50)]
    a, b, c = (letter * 64 for letter in "abc")
    engine.add(rows_of([*ids, "z"], digests=[a] * 50 + [b]))
    found = engine.ids_of([a, b, c])
    assert set(found) == {a, b}
    assert found[a] in ids and found[b] == "z"


@pytest.mark.milvus
def test_a_row_that_is_too_large_is_refused_with_all_others(engine):
    rows = rows_of(["good", "bad"], metadata=[{}, {"text": "é" * 32_500}])
    with pytest.raises(InvalidArgument, match="at most 65000 bytes.*'bad'"):
        engine.add(rows)
    assert engine.count() == 0


@pytest.mark.milvus
def test_the_largest_metadata_are_kept(engine):
    texts = ["x" * 64_900, "é" * 32_400, '"' * 32_400, "\x01" * 10_800]
    given = [{"text": text} for text in texts]
    ids = [str(number) for number in range(4)]
    engine.add(rows_of(ids, metadata=given))
    assert engine.rows(keys(*ids)).metadata == tuple(given)


@pytest.mark.milvus
def test_the_widest_vectors_are_kept_and_found(make):
    engine = make(space=Space("gaussian", 32_767))
    rows = Rows(
        ids=tuple(f"{number:02}" for number in range(40)),
        embeddings=random_embeddings(40, 32_767, 0),
        digests=("",) * 40,
        metadata=({},) * 40,
    )
    engine.add(rows)
    assert len(queries.batches(rows, engine.space)) > 1
    found = engine.search(engine.space.query_vectors(rows.embeddings[:2]), 40)
    assert sorted(found.keys[1]) == list(rows.ids)
    assert engine.verify() == []
    assert 40 < engine.max_k < 1000


def test_long_lists_are_divided():
    names = [f"{number:05}" for number in range(9000)]
    assert [len(some) for some in portions(names)] == [4096, 4096, 808]
    assert list(itertools.chain(*portions([*names, *names]))) == names


def test_long_texts_are_divided_by_their_size():
    names = [f"{number:05}" + "😀" * 250 for number in range(3000)]
    parts = list(portions(names))
    assert list(itertools.chain(*parts)) == names
    assert all(len(among("id", some).encode()) < 1.1 * BYTES_AT_ONCE for some in parts)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 1025, "é" * 513, "\ud800"])
def test_what_can_be_no_id_is_not_asked_for(name):
    assert list(portions([name, "a"])) == [["a"]]
