"""Searches: exact where every row is looked at, nearly so along a graph or in cells."""

import numpy as np
import pytest
from galleries import clustered_embeddings, plain_rows

from surefind.engines.base import Space
from surefind.engines.milvus import engine as module
from surefind.engines.milvus.client import hits_of, parse
from surefind.engines.registry import open_engine

SPACE = Space("gaussian", 16)


def nearest(space, gallery, query, k):
    """By brute force in float64."""
    vectors, queries = (x.astype(np.float64) for x in (space.gallery_vectors(gallery), space.queries(query).vectors))
    distance = ((queries[:, None] - vectors[None]) ** 2).sum(axis=2)
    return np.sort(distance, axis=1)[:, :k], np.argsort(distance, axis=1)[:, :k]


@pytest.mark.milvus
def test_auto_has_a_graph_once_there_are_many_rows(make, new_url, monkeypatch):
    monkeypatch.setattr(module, "MANY", 2000)
    url = new_url()
    embeddings = clustered_embeddings(3000, 16, 0)
    engine = make(url, space=SPACE)
    engine.add(plain_rows(embeddings[:1500]))
    engine.compact()
    assert engine.exact and engine.warnings == ()
    other = open_engine(url)
    engine.add(plain_rows(embeddings))
    assert other.refresh()
    assert other.exact and "compact" in other.warnings[0]
    engine.compact()
    assert not engine.exact and engine.describe()["kind"] == "hnsw"
    assert other.refresh() and not other.exact and other.warnings == ()
    other.close()


@pytest.mark.milvus
def test_many_queries_are_answered_in_blocks(engine, monkeypatch):
    monkeypatch.setattr(module, "EASY_ANSWER", 50_000)
    embeddings, query = clustered_embeddings(200, 4, 0), clustered_embeddings(70, 4, 1)
    engine.add(plain_rows(embeddings))
    found = engine.search(engine.space.queries(query).vectors, 5)
    want, order = nearest(engine.space, embeddings, query, 5)
    assert np.allclose(found.distance, want, rtol=1e-4, atol=1e-5)
    assert found.vectors.shape == (70, 5, 5)
    stored, var = engine.space.gallery_vectors(embeddings), engine.space.var(embeddings)
    names = np.array(found.keys, dtype=int)
    assert np.array_equal(found.vectors, stored[names])
    assert np.array_equal(found.var, var[names])
    assert np.mean(names == order) > 0.99


@pytest.mark.milvus
def test_the_most_neighbours_can_be_asked_for(engine):
    count = module.AT_ONCE + 100
    engine.add(plain_rows(clustered_embeddings(count, 4, 0)))
    found = engine.search(np.zeros((2, 5), np.float32), engine.max_k)
    assert engine.max_k == module.AT_ONCE == found.keys.shape[1]
    assert len({*found.keys[0]}) == engine.max_k


@pytest.mark.milvus
def test_vectors_are_the_same_taken_together_and_one_by_one(milvus, engine):
    """pymilvus shows them together in an attribute that it may lose one day."""
    pymilvus = pytest.importorskip("pymilvus")
    engine.add(plain_rows(clustered_embeddings(50, 4, 0)))
    place = parse(milvus.url)
    client = pymilvus.MilvusClient(f"http://{place.server}", user=place.user, password=place.password)

    def ask():
        return client.search("kept", [[0.0] * 5, [1.0] * 5], limit=7, output_fields=["vector", "var"])

    together, one_by_one = hits_of(ask(), 5), hits_of([list(hits) for hits in ask()], 5)
    client.close()
    for fast, plain in zip(together, one_by_one, strict=True):
        assert len(fast[0]) == 7
        assert all(np.array_equal(a, b) for a, b in zip(fast, plain, strict=True))
