"""What the embedded engine takes, and what it says to the rest."""

import hashlib
from threading import Thread

import numpy as np
import pytest
from stores import DIM, FACTS, QUERIES, SPACE, answers, contents, filled, made, opened, some_rows

from surefind.engines.base import Rows
from surefind.engines.embedded import engine
from surefind.engines.registry import create_engine
from surefind.errors import InvalidArgument, InvalidFile


def test_an_index_is_not_created_over_another_or_in_a_file(tmp_path):
    wanted = contents(filled(tmp_path / "index"))
    with pytest.raises(InvalidFile, match="already"):
        made(tmp_path / "index")
    assert contents(opened(tmp_path / "index")) == wanted
    with pytest.raises(InvalidArgument, match="did you mean 'hnsw'"):
        create_engine(str(tmp_path / "new"), SPACE, FACTS, kind="hsnw")
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidFile, match="cannot write"):
            made(place)


def test_of_rows_with_one_digest_an_id_that_lives_is_named(place):
    digest = hashlib.sha256(b"same").hexdigest()
    found = made(place)
    for seed, prefix in enumerate("abc"):
        rows = some_rows(1, seed, prefix=prefix)
        found.add(Rows(rows.ids, rows.embeddings, (digest,), rows.metadata))
    found.remove(["c-0"])
    assert found.ids_of([digest]) == {digest: "b-0"}


def test_scans_in_blocks_give_the_same(place, monkeypatch):
    found = filled(place)
    whole = contents(found)
    monkeypatch.setattr(engine, "_SCANNED", 100)
    assert contents(found) == whole
    assert found.search(QUERIES[:0], 3).vectors.shape == (0, 3, DIM + 1)


def test_a_description_tells_size_version_and_kind(place):
    found = filled(place).describe()
    assert found["place"] == str(place) and found["asked_kind"] == found["kind"] == "flat"
    assert (found["version"], found["rows"], found["removed"]) == (4, 28, 4)
    assert found["bytes"] == sum(path.stat().st_size for path in place.iterdir())


def test_threads_search_while_one_writes(place):
    found, wrong = filled(place), []

    def look() -> None:
        for _ in range(60):
            seen = found.search(QUERIES, 28)
            if not np.isfinite(seen.distance[:, :20]).all():
                wrong.append(seen)

    threads = [Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for seed in range(12):
        found.add(some_rows(20, seed + 10))
        found.refresh()
    for thread in threads:
        thread.join()
    assert not wrong and answers(found) == answers(opened(place))
