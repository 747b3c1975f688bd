"""Graphs and cells against exhaustive search."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from galleries import clustered_embeddings, random_rows, recall
from numpy.typing import NDArray

from surefind.engines.base import Rows, Space
from surefind.engines.embedded import ann
from surefind.engines.embedded.engine import EmbeddedEngine, create, open_place
from surefind.engines.filters import Where
from surefind.storage import CorruptFile

DIM, ROWS = 16, 9_000
SPACE = Space("gaussian", DIM)


def rows_of_classes(count: int, seed: int, *, prefix: str = "row") -> Rows:
    rows = random_rows(count, DIM, seed, prefix=prefix)
    return replace(rows, embeddings=clustered_embeddings(count, DIM, seed))


QUERIES = SPACE.queries(clustered_embeddings(60, DIM, 5)).vectors


@pytest.fixture(scope="module", params=["hnsw", "ivf"])
def built(request, tmp_path_factory) -> Path:
    """An index with a graph over its first rows, and some rows that came later."""
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
    monkeypatch.setattr(ann.AnnIndex, "pays", lambda *_: True)


def exactly(engine: EmbeddedEngine, k: int, where: Where | None = None) -> np.ndarray:
    """Keys of the nearest, from all rows."""
    blocks = list(engine.scan(where))
    vectors = np.concatenate([block.vectors for block in blocks])
    keys = np.concatenate([block.keys for block in blocks])
    distance = ((QUERIES[:, None].astype("f8") - vectors[None]) ** 2).sum(-1)
    return keys[np.argsort(distance, axis=1)[:, :k]]


def test_removed_rows_are_not_found(engine, graph_always):
    before = engine.search(QUERIES, 3)
    gone = set(before.keys[:, 0])
    engine.remove(engine.rows(np.array(sorted(gone))).ids)
    assert not engine.exact  # the graph is still there
    found = engine.search(QUERIES, 10)
    assert not gone & set(found.keys.ravel())
    assert recall(found.keys, exactly(engine, 10)) > 0.99


@pytest.mark.parametrize("written", ["label=a", "year<2006", "var<0.06"])
def test_a_filter_is_kept_to_along_the_graph(engine, graph_always, written: str):
    where = Where.parse([written])
    found = engine.search(QUERIES, 10, where)
    assert recall(found.keys, exactly(engine, 10, where)) > 0.98


def test_the_few_that_a_filter_leaves_are_found_exactly(engine):
    where = Where.parse(["year=2003", "weight<40"])
    assert engine.count(where) < 60
    for query in (QUERIES[:1], QUERIES):
        found = engine.search(query, 10, where)
        assert np.array_equal(found.keys, exactly(engine, 10, where)[: len(query)])
    found = engine.search(QUERIES[:2], 5000)  # so many are not searched in a graph
    assert all(set(a) == set(b) for a, b in zip(found.keys, exactly(engine, 5000)[:2], strict=True))


def graph_path(engine: EmbeddedEngine) -> Path:
    return engine._folder / engine._now.graph.kept.name


def test_the_graph_is_used_and_so_are_the_rows_behind_it(engine, graph_always, monkeypatch):
    exhaustive = Mock(wraps=ann.search_rows)
    monkeypatch.setattr(ann, "search_rows", exhaustive)
    assert recall(engine.search(QUERIES, 10).keys, exactly(engine, 10)) > 0.99
    exhaustive.assert_called_once()
    assert exhaustive.call_args.kwargs == {"first": ROWS} and not engine.exact
    late = engine.find([f"other-{n}" for n in range(20)])
    found = engine.search(SPACE.gallery_vectors(late.embeddings), 1)
    assert engine.rows(found.keys[:, 0]).ids == late.ids


def test_the_graph_of_hnsw_holds_no_vectors(engine):
    kept, index = engine._now.graph.kept, engine._now.graph.index
    size = graph_path(engine).stat().st_size
    if kept.kind == "hnsw":
        assert size < index.hnsw.neighbors.size() * 4 + 20 * ROWS
        first = ann.faiss.rev_swig_ptr(engine._now.graph._storage.get_xb(), 1).ctypes.data
        assert first == engine._now.graph._vectors.ctypes.data
    else:
        assert size > ROWS * SPACE.width * 4


@pytest.mark.parametrize("how", ["flipped", "cut", "missing"])
def test_a_damaged_graph_costs_speed_but_no_row_and_is_built_again(engine, how: str):
    path = graph_path(engine)
    whole = bytearray(path.read_bytes())
    path.unlink()  # the graph that is mapped stays as it was
    if how != "missing":
        whole[len(whole) // 2] ^= 4
        path.write_bytes(whole if how == "flipped" else whole[:-1])
    again = open_place(str(engine._folder))
    assert again.exact and again.count() == ROWS + 20
    assert str(path) in again.warnings[0] and "verify --repair" in again.warnings[0]
    assert not again.refresh() and again.newest() is None  # the warning stays until it is repaired
    assert recall(again.search(QUERIES, 10).keys, exactly(engine, 10)) == 1.0
    assert str(path) in again.verify()[0]
    if how == "flipped":
        assert "built again" in again.repair()[-1]
    else:
        again.remove(["other-1"])
    assert again.verify() == again.repair() == [] and again.warnings == () and not again.exact


@pytest.mark.parametrize(
    ("kind", "rows", "covered", "compact", "wanted"),
    [
        ("flat", 10**9, 0, True, None),
        ("hnsw", 8_191, 0, True, None),
        ("hnsw", 8_192, 0, False, "hnsw"),
        ("ivf", 8_192, 0, False, "ivf"),
        ("hnsw", 16_383, 8_192, False, None),
        ("hnsw", 16_384, 8_192, False, "hnsw"),
        ("hnsw", 124_999, 100_000, False, None),
        ("hnsw", 100_001, 100_000, True, "hnsw"),
        ("hnsw", 100_000, 100_000, True, None),
        ("auto", 99_999, 0, True, None),
        ("auto", 100_000, 0, False, None),
        ("auto", 100_000, 0, True, "hnsw"),
        ("auto", 125_000, 100_000, False, "hnsw"),
        ("hnsw", 1_032_767, 1_000_000, False, None),
        ("hnsw", 1_032_768, 1_000_000, False, "hnsw"),
        ("ivf", 1_249_999, 1_000_000, False, None),
        ("ivf", 1_250_000, 1_000_000, False, "ivf"),
    ],
)
def test_a_graph_is_built_and_extended_as_rows_come(kind, rows, covered, compact, wanted):
    assert ann.kind_wanted(kind, rows, covered, 128, compact=compact) == wanted


def test_a_graph_grows_and_finds_what_one_from_nothing_finds(engine, graph_always, monkeypatch):
    monkeypatch.setattr(ann, "GRAPH_FROM", 1000)
    engine.add(rows_of_classes(ROWS // 4, 3, prefix="more"))
    assert engine._now.graph.kept.covered == len(engine._now.keys)
    assert recall(engine.search(QUERIES, 10).keys, exactly(engine, 10)) > 0.99
    assert engine.verify() == []


def test_compacting_builds_the_graph_once(tmp_path, monkeypatch):
    monkeypatch.setattr(ann, "AUTO_FROM", 200)
    engine = create(str(tmp_path / "auto"), SPACE, {}, kind="auto")
    engine.add(rows_of_classes(300, 1))
    assert engine.exact and engine.describe()["kind"] == "flat"
    engine.compact()
    assert not engine.exact and engine.describe()["kind"] == "hnsw"
    version = engine.describe()["version"]
    engine.compact()
    assert engine.describe()["version"] == version


# sizes in files that lie


SMALL, WIDTH = 300, 5
VECTORS = np.random.default_rng(0).standard_normal((SMALL, WIDTH)).astype("f4")
LIES = [0, 1, SMALL - 1, SMALL + 2, 2**31, 2**39, 2**63, 2**64 - 1]


def written(kind: str, folder: Path) -> tuple[ann.AnnFile, NDArray[np.uint8]]:
    kept = ann.write_index(folder, VECTORS, kind, None)
    return kept, np.frombuffer((folder / kept.name).read_bytes(), np.uint8).copy()


def sizes_in(content: NDArray[np.uint8], kind: str) -> list[int]:
    """Where sizes stand in the file, counted by hand."""

    def number(place: int) -> int:
        return int.from_bytes(content[place : place + 8].tobytes(), "little")

    if kind == "ivf":
        middles = 53  # after the header, the number of cells and of those probed
        cells = number(37)
        table = middles + 45 + 4 * cells * WIDTH + 1
        lists = table + 8 + 4
        first = lists + 16 + 4 + 8
        inside = [middles + 8, middles + 37, table, lists, lists + 8, first - 8, first, first + 8]
        return [8, 37, *inside]
    places = [8, 37]
    for width in (8, 4, 4, 8, 4):  # chances, links per level, levels, offsets, links
        places.append(places[-1] + 8 + width * number(places[-1]))
    return places[:-1]


def refuses(kept: ann.AnnFile, path: Path, content: NDArray[np.uint8], vectors=VECTORS) -> None:
    path.write_bytes(content.tobytes())
    kept = kept._replace(sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(CorruptFile, match="not a graph of these vectors|rows that do not exist"):
        ann.AnnIndex(kept, path, vectors)


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_a_size_that_lies_is_refused(tmp_path, kind: str):
    kept, content = written(kind, tmp_path)
    ann.AnnIndex(kept, tmp_path / kept.name, VECTORS)  # as it is written
    for place in sizes_in(content, kind):
        for lie in LIES:
            lying = content.copy()
            lying[place : place + 8] = np.frombuffer(lie.to_bytes(8, "little"), np.uint8)
            if not np.array_equal(lying, content):
                refuses(kept, tmp_path / "lying", lying)
    for size in [3, 8, 40, 100, 1000, len(content) // 2]:
        refuses(kept, tmp_path / "lying", content[:size])
    refuses(kept, tmp_path / "lying", content, VECTORS[:-1])


def test_a_graph_that_leads_nowhere_is_refused(tmp_path):
    kept, content = written("ivf", tmp_path)
    content[-8:] = np.frombuffer(SMALL.to_bytes(8, "little"), np.uint8)  # the row of a vector
    refuses(kept, tmp_path / kept.name, content)
    kept, content = written("hnsw", tmp_path)
    content[-20:-16] = 7  # the highest level
    refuses(kept, tmp_path / kept.name, content)


def test_cells_that_are_mostly_empty_are_read(tmp_path):
    alike = np.ones_like(VECTORS)
    kept = ann.write_index(tmp_path, alike, "ivf", None)
    assert b"sprs" in (tmp_path / kept.name).read_bytes()
    ann.AnnIndex(kept, tmp_path / kept.name, alike)
