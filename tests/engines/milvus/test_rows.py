"""Rows go to the server in batches and come back as they were."""

import itertools

import numpy as np
import pytest
from galleries import clustered_embeddings, plain_rows, random_embeddings, random_rows

from surefind.engines.base import Space
from surefind.engines.milvus import engine as module
from surefind.engines.milvus.engine import BYTES_AT_ONCE, among, portions
from surefind.errors import InvalidArgument


def keys(*ids):
    return np.array(ids, dtype=object)


@pytest.mark.milvus
def test_many_rows_go_in_several_batches(engine, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 10_000)
    rows = random_rows(500, 4, 0)
    batches = module.batches(rows, engine.space)
    assert len(batches) > 5
    assert [row["id"] for batch in batches for row in batch] == list(rows.ids)
    engine.add(rows)
    assert engine.count() == 500
    assert engine.rows(keys("row-0", "row-499")).metadata == (rows.metadata[0], rows.metadata[499])


@pytest.mark.milvus
def test_a_scan_sees_more_rows_than_a_page(engine):
    count = module.AT_ONCE + 5000
    ids = tuple(f"{number:x}" for number in range(count))
    embeddings = clustered_embeddings(count, 4, 0)
    engine.add(plain_rows(embeddings, ids=ids))
    blocks = list(engine.scan())
    assert len(blocks) > 1
    seen = [name for block in blocks for name in block.keys]
    assert len(seen) == count and set(seen) == set(ids)
    place = {name: number for number, name in enumerate(ids)}
    order = [place[name] for name in seen]
    vectors = np.concatenate([block.vectors for block in blocks])
    assert np.array_equal(vectors, engine.space.gallery_vectors(embeddings)[order])
    assert engine.remove(ids) == count and engine.count() == 0


@pytest.mark.milvus
def test_a_digest_is_found_behind_many_rows_of_another(engine, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 10)
    ids = [f"{number:03}" for number in range(50)]
    a, b, c = (letter * 64 for letter in "abc")
    rows = plain_rows(random_embeddings(51, 4, 0), ids=[*ids, "z"], digests=[a] * 50 + [b])
    engine.add(rows)
    found = engine.ids_of([a, b, c])
    assert set(found) == {a, b}
    assert found[a] in ids and found[b] == "z"


@pytest.mark.milvus
def test_a_row_that_is_too_large_is_refused_with_all_others(engine):
    metadata = [{}, {"text": "é" * 32_500}]
    rows = plain_rows(random_embeddings(2, 4, 0), ids=["good", "bad"], metadata=metadata)
    with pytest.raises(InvalidArgument, match="at most 65000 bytes.*'bad'"):
        engine.add(rows)
    assert engine.count() == 0


@pytest.mark.milvus
def test_the_largest_metadata_are_kept(engine):
    texts = ["x" * 64_900, "é" * 32_400, '"' * 32_400, "\x01" * 10_800]
    given = [{"text": text} for text in texts]
    engine.add(plain_rows(random_embeddings(4, 4, 0), metadata=given))
    assert engine.rows(keys(*"0123")).metadata == tuple(given)


@pytest.mark.milvus
def test_the_widest_vectors_are_kept_and_found(make):
    engine = make(space=Space("gaussian", 32_767))
    rows = plain_rows(random_embeddings(40, 32_767, 0))
    engine.add(rows)
    assert len(module.batches(rows, engine.space)) > 1
    found = engine.search(engine.space.queries(rows.embeddings[:2]).vectors, 40)
    assert {*found.keys[1]} == {*rows.ids}
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
