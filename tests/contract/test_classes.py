"""The class table on every engine: it follows changes, and notices those of others."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from clusters import FINGERPRINT, SPACE, cluster_index, clusters, rows_of
from memory_engine import MemoryEngine

from surefind.confidence.class_table import ClassTable
from surefind.search.folder import IndexFolder
from surefind.search.index import Index

GALLERY = clusters(classes=6, per_class=20)
MORE = rows_of(*clusters(classes=8, per_class=2, seed=1), prefix="more")
OTHER = rows_of(*clusters(classes=3, per_class=4, seed=2))  # ids of the gallery


def in_memory(folder: Path) -> Index:
    engine = MemoryEngine(SPACE, {"fingerprint": FINGERPRINT})
    index = Index(IndexFolder(folder), engine)  # type: ignore[arg-type]
    index._classes.start_empty()
    rows = rows_of(*GALLERY)
    index.add_embeddings(rows.embeddings, rows.ids, metadata=rows.metadata)
    return index


def assert_follows(index: Index) -> None:
    found, wanted = index.class_table(), ClassTable.of(index._engine)
    assert found.revision == index._engine.revision
    assert (found.classes, found.images) == (wanted.classes, wanted.images)
    for code, name in enumerate(wanted.names):
        its = found.codes[name]
        assert found.counts[its] == wanted.counts[code]
        assert found.sums[its] == pytest.approx(wanted.sums[code], abs=1e-4)
        assert found.squares[its] == pytest.approx(wanted.squares[code], rel=1e-4)


def add(index: Index, rows) -> None:
    index.add_embeddings(rows.embeddings, rows.ids, metadata=rows.metadata, replace=True)


@pytest.mark.parametrize("kept", [False, True])
def test_it_follows_rows_that_are_added_replaced_and_removed(tmp_path, engine, kept, monkeypatch):
    index = cluster_index(tmp_path / "index", *GALLERY, engine=engine)
    if kept:
        index.calibrate_itself()
        index = Index.open(tmp_path / "index", engine=engine if "://" in engine else None)
        index.class_table()
    read = Mock(side_effect=AssertionError("all rows were read"))
    for change in (
        lambda: add(index, MORE),
        lambda: add(index, OTHER),
        lambda: index.remove(["row-1", "row-20", "row-21", "nobody"]),
        lambda: index.remove(["nobody"]),
        lambda: index.remove([f"more-{n}" for n in range(16)]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(index, "recalibrate_if_stale", lambda: None)
            patch.setattr(index._engine, "scan", read)
            change()
            index.class_table()
        assert_follows(index)
    monkeypatch.setattr(index, "recalibrate_if_stale", lambda: None)
    index.remove([f"row-{n}" for n in range(90)])  # so many that an engine may rewrite its files
    assert_follows(index)
    index.close()


def test_in_memory_it_does_so_too(tmp_path):
    index = in_memory(tmp_path)
    add(index, MORE)
    add(index, OTHER)
    index.remove(["row-1", "nobody"])
    assert index._classes._table is not None
    assert_follows(index)


def test_changes_of_another_are_noticed(tmp_path, engine):
    index = cluster_index(tmp_path / "index", *GALLERY, engine=engine)
    with Index.open(tmp_path / "index", engine=engine if "://" in engine else None) as other:
        add(other, MORE)
        index.refresh()
        assert_follows(index)
        other.remove(["row-3", "row-4"])
        index.remove(["row-5"])  # in between
        assert_follows(index)
        other.refresh()
        assert_follows(other)
    index.close()


def test_a_snapshot_has_classes_of_its_own(tmp_path, engine):
    with cluster_index(tmp_path / "index", *GALLERY, engine=engine) as index:
        index.calibrate_itself()
        copy = index.snapshot(tmp_path / "copy")
        query = clusters(classes=6, per_class=1, seed=3)[0]
        found, wanted = (its.search(query, k=3) for its in (copy, index))
        assert_follows(copy)
        for one, other in zip(found, wanted, strict=True):
            assert list(one.labels) == list(other.labels)
            assert np.array([*one.labels.values()]) == pytest.approx([*other.labels.values()])
        copy.close()
