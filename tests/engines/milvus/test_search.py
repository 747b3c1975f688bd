"""Searches: exact where every row is looked at, nearly so along a graph or in cells."""

import numpy as np
import pytest
import torch

import surefind as sf
from surefind.engines.base import Rows
from surefind.engines.milvus import engine as module
from surefind.engines.milvus import queries
from surefind.engines.milvus.client import hits_of, parse
from surefind.engines.registry import open_engine
from surefind.engines.space import Space

SPACE = Space("gaussian", 16)


def gallery(count, *, dim=16, seed=0):
    """Clusters, as embeddings of classes are."""
    draw = torch.Generator().manual_seed(seed)
    centres = 3 * torch.randn(60, dim, generator=draw)
    mean = centres[torch.randint(60, (count,), generator=draw)]
    mean = mean + 0.5 * torch.randn(count, dim, generator=draw)
    return sf.Gaussians(mean, 0.01 + torch.rand(count, generator=draw))


def rows_of(embeddings) -> Rows:
    count = len(embeddings)
    ids = tuple(f"{number:06}" for number in range(count))
    metadata = tuple({"third": number % 3} for number in range(count))
    return Rows(ids, embeddings, ("",) * count, metadata)


def nearest(space, gallery, query, k):
    """By brute force in float64."""
    vectors, asking = (
        x.astype(np.float64) for x in (space.gallery_vectors(gallery), space.query_vectors(query))
    )
    distance = ((asking[:, None] - vectors[None]) ** 2).sum(axis=2)
    return np.sort(distance, axis=1)[:, :k], np.argsort(distance, axis=1)[:, :k]


def recall(engine, gallery, query, k=10) -> float:
    found = engine.search(engine.space.query_vectors(query), k)
    _, want = nearest(engine.space, gallery, query, k)
    same = [
        len({*map(int, got)} & {*wanted.tolist()})
        for got, wanted in zip(found.keys, want, strict=True)
    ]
    return sum(same) / want.size


@pytest.mark.milvus
def test_auto_has_a_graph_once_there_are_many_rows(make, new_url, monkeypatch):
    monkeypatch.setattr(module, "MANY", 2000)
    url = new_url()
    embeddings, query = gallery(3000), gallery(50, seed=1)
    engine = make(url, space=SPACE)
    engine.add(rows_of(embeddings[:1500]))
    engine.compact()
    assert engine.exact and engine.warnings == ()
    other = open_engine(url)
    engine.add(rows_of(embeddings))
    assert other.refresh()
    assert other.exact and "compact" in other.warnings[0]
    engine.compact()
    assert not engine.exact and engine.describe()["kind"] == "hnsw"
    assert recall(engine, embeddings, query) >= 0.99
    assert engine.verify() == []
    assert other.refresh() and not other.exact and other.warnings == ()
    other.close()


@pytest.mark.milvus
def test_many_queries_are_answered_in_blocks(engine, monkeypatch):
    monkeypatch.setattr(queries, "EASY_ANSWER", 50_000)
    embeddings, query = gallery(200, dim=4), gallery(70, dim=4, seed=1)
    engine.add(rows_of(embeddings))
    found = engine.search(engine.space.query_vectors(query), 5)
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
    count = queries.AT_ONCE + 100
    engine.add(rows_of(gallery(count, dim=4)))
    found = engine.search(np.zeros((2, 5), np.float32), engine.max_k)
    assert engine.max_k == queries.AT_ONCE == found.keys.shape[1]
    assert len({*found.keys[0]}) == engine.max_k


@pytest.mark.milvus
def test_vectors_are_the_same_taken_together_and_one_by_one(milvus, engine):
    """pymilvus shows them together in an attribute that it may lose one day."""
    pymilvus = pytest.importorskip("pymilvus")
    engine.add(rows_of(gallery(50, dim=4)))
    place = parse(milvus.url)
    client = pymilvus.MilvusClient(
        f"http://{place.server}", user=place.user, password=place.password
    )

    def ask():
        return client.search(
            "kept", [[0.0] * 5, [1.0] * 5], limit=7, output_fields=["vector", "var"]
        )

    together, one_by_one = hits_of(ask(), 5), hits_of([list(hits) for hits in ask()], 5)
    client.close()
    for fast, plain in zip(together, one_by_one, strict=True):
        assert len(fast[0]) == 7
        assert all(np.array_equal(a, b) for a, b in zip(fast, plain, strict=True))
