"""Graphs and cells against exhaustive search."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from galleries import random_embeddings, random_rows

from surefind.embeddings import Embeddings
from surefind.engines.embedded import building, graph
from surefind.engines.embedded.engine import EmbeddedEngine, create, open_place
from surefind.engines.engine import Found, Rows
from surefind.engines.space import Space
from surefind.engines.where import Where

DIM, ROWS = 16, 9_000
SPACE = Space("gaussian", DIM)


def clustered(count: int, seed: int) -> Embeddings:
    """Images of 80 classes."""
    centres = random_embeddings(80, DIM, seed=0).mean
    draw = torch.Generator().manual_seed(seed)
    label = torch.randint(80, (count,), generator=draw)
    apart = random_embeddings(count, DIM, seed)
    return apart.replace(centres[label] + 0.5 * apart.mean, apart.spread / 10)


def rows_of_classes(count: int, seed: int, *, prefix: str = "row") -> Rows:
    rows = random_rows(count, DIM, seed, prefix=prefix)
    return replace(rows, embeddings=clustered(count, seed))


QUERIES = SPACE.asking(clustered(60, seed=5))


@pytest.fixture(scope="module", params=["hnsw", "ivf"])
def built(request, tmp_path_factory) -> Path:
    """An index with a graph over its first segment, and a small segment without."""
    place = tmp_path_factory.mktemp("graphs") / request.param
    engine = create(str(place), SPACE, {}, kind=request.param)
    engine.add(rows_of_classes(ROWS, 1))
    engine.add(rows_of_classes(20, 2, prefix="other"))
    return place


@pytest.fixture
def engine(built: Path, tmp_path: Path) -> EmbeddedEngine:
    return open_place(shutil.copytree(built, tmp_path / "copy"))


@pytest.fixture
def graph_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where looking at every vector would be quicker."""
    monkeypatch.setattr(graph, "STEP", 0)
    monkeypatch.setattr(graph, "GATHERED_FROM", 10**9)


def exactly(engine: EmbeddedEngine, k: int, where: Where | None = None) -> np.ndarray:
    """Keys of the nearest, from all rows."""
    blocks = list(engine.scan(where))
    vectors = np.concatenate([block.vectors for block in blocks])
    keys = np.concatenate([block.keys for block in blocks])
    distance = ((QUERIES[:, None].astype("f8") - vectors[None]) ** 2).sum(-1)
    return keys[np.argsort(distance, axis=1)[:, :k]]


def recall(found: Found, wanted: np.ndarray) -> float:
    pairs = zip(found.keys, wanted, strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in pairs]))


def test_the_graph_is_used_and_finds_nearly_everything(engine, graph_always, monkeypatch):
    monkeypatch.setattr(graph.Flat, "search", None)  # of the segment with the graph
    part = engine._session.snapshot.parts[0]
    found = part.graph.search(QUERIES, 10)
    wanted = exactly(engine, 30)
    assert np.mean([len(set(a) & set(b)) for a, b in zip(found.rows, wanted, strict=True)]) > 9.9
    assert not engine.exact


def test_both_segments_are_searched(engine, graph_always):
    assert recall(engine.search(QUERIES, 10), exactly(engine, 10)) > 0.99
    other = engine._session.snapshot.parts[1].segment
    assert np.array_equal(engine.search(other.vectors, 1).keys[:, 0], other.key)


def test_removed_rows_are_not_found(engine, graph_always):
    before = engine.search(QUERIES, 3)
    gone = set(before.keys[:, 0])
    engine.remove(engine.rows(np.array(sorted(gone))).ids)
    assert not engine.exact  # the graph is still there
    found = engine.search(QUERIES, 10)
    assert not gone & set(found.keys.ravel())
    assert recall(found, exactly(engine, 10)) > 0.99


@pytest.mark.parametrize("written", ["label=a", "year<2006", "var<0.003"])
def test_a_filter_is_kept_to_along_the_graph(engine, graph_always, written: str):
    where = Where.parse([written])
    found = engine.search(QUERIES, 10, where)
    assert recall(found, exactly(engine, 10, where)) > 0.98


def test_the_few_that_a_filter_leaves_are_found_exactly(engine):
    where = Where.parse(["year=2003", "weight<40"])
    assert engine.count(where) < 60
    for query in (QUERIES[:1], QUERIES):
        found = engine.search(query, 10, where)
        assert np.array_equal(found.keys, exactly(engine, 10, where)[: len(query)])


def test_many_neighbours_are_found_exactly(engine):
    found = engine.search(QUERIES[:2], 5000)
    assert all(set(a) == set(b) for a, b in zip(found.keys, exactly(engine, 5000)[:2], strict=True))


def test_the_graph_of_hnsw_holds_no_vectors(engine):
    piece = engine._session.snapshot.manifest.pieces[0]
    vectors = ROWS * SPACE.width * 4
    if piece.graph.name.endswith("hnsw"):
        links = engine._session.snapshot.parts[0].graph._index.hnsw.neighbors.size() * 4
        assert piece.graph.bytes < links + 20 * ROWS
        stored = engine._session.snapshot.parts[0].graph._index.storage
        assert stored.this == engine._session.snapshot.parts[0].segment.flat.index.this
    else:
        assert piece.graph.bytes > vectors


def test_a_damaged_graph_costs_speed_but_no_row(engine):
    session = engine._session
    path = session.folder.file(session.snapshot.manifest.pieces[0].graph.name)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    again = open_place(str(session.folder.path))
    assert again.exact and again.count() == ROWS + 20
    assert any(str(path) in warning for warning in again.warnings)
    assert recall(again.search(QUERIES, 10), exactly(engine, 10)) == 1.0
    assert str(path) in again.verify()[0]
    assert "compact() builds it again" in again.repair()[-1]
    assert again.verify() == [] and again.warnings == () and again.exact
    again.compact()
    assert not again.exact


def test_a_damaged_graph_is_told_until_it_is_mended(engine):
    session = engine._session
    path = session.folder.file(session.snapshot.manifest.pieces[0].graph.name)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    again = open_place(str(session.folder.path))
    told = again.warnings
    assert told and not again.refresh() and again.newest() is None and again.warnings == told
    path.write_bytes(whole)
    mended = again.newest()
    assert mended.warnings == () and not mended.exact


def test_a_faiss_without_graphs_searches_every_row(engine, monkeypatch):
    monkeypatch.delattr(graph.faiss, "IO_FLAG_SKIP_STORAGE")
    again = open_place(str(engine._session.folder.path))
    assert again.exact and again.warnings == ()
    assert recall(again.search(QUERIES, 10), exactly(engine, 10)) == 1.0


@pytest.mark.parametrize(
    ("kind", "rows", "merged", "wanted"),
    [
        ("flat", 10**9, True, None),
        ("hnsw", 8_191, True, None),
        ("hnsw", 8_192, False, "hnsw"),
        ("ivf", 8_192, False, "ivf"),
        ("auto", 99_999, True, None),
        ("auto", 100_000, False, None),
        ("auto", 100_000, True, "hnsw"),
    ],
)
def test_large_segments_get_the_graph_that_was_asked_for(kind, rows, merged, wanted):
    assert building._graph(kind, rows, merged=merged) == wanted


def test_compacting_builds_the_graph_of_a_large_segment_once(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "AUTO_FROM", 200)
    engine = create(str(tmp_path / "auto"), SPACE, {}, kind="auto")
    engine.add(rows_of_classes(300, 1))
    assert engine.exact and engine.describe()["kind"] == "flat"
    segment = engine._session.snapshot.manifest.pieces[0].segment
    engine.compact()
    assert not engine.exact and engine.describe()["kind"] == "hnsw"
    assert engine._session.snapshot.manifest.pieces[0].segment == segment  # not written again
    version = engine.describe()["version"]
    engine.compact()
    assert engine.describe()["version"] == version
