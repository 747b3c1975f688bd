"""Graphs whose files lie about sizes are refused before faiss makes room for them."""

from pathlib import Path

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from surefind.engines.embedded import graph
from surefind.engines.embedded.damage import Damaged
from surefind.engines.embedded.flat import Flat
from surefind.engines.embedded.graph import LINKS
from surefind.engines.embedded.graph_format import Unfit, check_hnsw, check_ivf

ROWS, WIDTH = 300, 5
VECTORS = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype("f4")
LIES = [0, 1, ROWS - 1, ROWS + 2, 2**31, 2**39, 2**63, 2**64 - 1]


def written(index: faiss.Index, flags: int) -> NDArray[np.uint8]:
    writer = faiss.VectorIOWriter()
    faiss.write_index(index, writer, flags)
    return faiss.vector_to_array(writer.data)


def hnsw(rows: int = ROWS) -> NDArray[np.uint8]:
    index = faiss.IndexHNSWFlat(WIDTH, LINKS)
    index.add(VECTORS[:rows])
    return written(index, faiss.IO_FLAG_SKIP_STORAGE)


def ivf(vectors: NDArray[np.float32] = VECTORS) -> NDArray[np.uint8]:
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(WIDTH), WIDTH, 40)
    index.cp.min_points_per_centroid = 1
    index.train(vectors)
    index.add(vectors)
    return written(index, 0)


def sizes_in(content: NDArray[np.uint8], kind: str) -> list[int]:
    """Where sizes stand in the file, counted by hand."""

    def number(place: int) -> int:
        return int.from_bytes(content[place : place + 8].tobytes(), "little")

    if kind == "ivf":
        middles = 53  # after the header, the number of cells and of those looked into
        table = middles + 45 + 4 * 40 * WIDTH + 1
        lists = table + 8 + 4
        first = lists + 16 + 4 + 8
        inside = [middles + 8, middles + 37, table, lists, lists + 8, first - 8, first, first + 8]
        return [8, 37, *inside]
    places = [8, 37]
    for width in (8, 4, 4, 8, 4):  # chances, links per level, levels, offsets, links
        places.append(places[-1] + 8 + width * number(places[-1]))
    return places[:-1]


def test_graphs_as_they_are_written_pass():
    check_hnsw(hnsw(), rows=ROWS, width=WIDTH, links=LINKS)
    check_hnsw(hnsw(1), rows=1, width=WIDTH, links=LINKS)
    check_ivf(ivf(), rows=ROWS, width=WIDTH)
    alike = ivf(np.ones_like(VECTORS))
    assert b"sprs" in alike.tobytes()  # most cells are empty
    check_ivf(alike, rows=ROWS, width=WIDTH)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_no_size_that_lies_reaches_faiss(monkeypatch, kind: str, lie: int):
    content = hnsw() if kind == "hnsw" else ivf()
    places = sizes_in(content, kind)
    monkeypatch.setattr(graph.faiss, "read_index", lambda *_: pytest.fail("faiss believes it"))
    before = np.empty(0, np.uint8)
    for place in places:
        lying = content.copy()
        lying[place : place + 8] = np.frombuffer(lie.to_bytes(8, "little"), np.uint8)
        if np.array_equal(lying, content):
            continue
        with pytest.raises(Damaged, match="not a graph of its segment"):
            graph._read(Path(f"a.{kind}"), lying, Flat(VECTORS, before=before))


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_a_graph_that_is_cut_or_longer_is_refused(kind: str):
    content = hnsw() if kind == "hnsw" else ivf()
    given = {"rows": ROWS, "width": WIDTH} | ({"links": LINKS} if kind == "hnsw" else {})
    check = check_hnsw if kind == "hnsw" else check_ivf
    for size in [0, 3, 8, 40, 100, 1000, len(content) // 2, len(content) - 1]:
        with pytest.raises(Unfit):
            check(content[:size], **given)
    with pytest.raises(Unfit):
        check(np.append(content, np.uint8(0)), **given)


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_a_graph_of_other_vectors_is_refused(kind: str):
    content = hnsw() if kind == "hnsw" else ivf()
    other = Flat(VECTORS[:-1], before=np.empty(0, np.uint8))
    with pytest.raises(Damaged, match="not a graph of its segment"):
        graph._read(Path(f"a.{kind}"), content, other)


def test_a_graph_that_leads_nowhere_is_refused():
    content, flat = ivf().copy(), Flat(VECTORS, before=np.empty(0, np.uint8))
    content[-8:] = np.frombuffer((ROWS).to_bytes(8, "little"), np.uint8)  # the row of a vector
    with pytest.raises(Damaged, match="rows that do not exist"):
        graph._read(Path("a.ivf"), content, flat)
    content = hnsw().copy()
    content[-20:-16] = 7  # the highest level
    with pytest.raises(Damaged, match="rows that do not exist|not a graph"):
        graph._read(Path("a.hnsw"), content, flat)
