"""Several engines at one collection, in one process or two."""

import threading

import numpy as np
import pytest
from galleries import random_rows

from surefind.engines.base import EngineError
from surefind.engines.milvus import engine as module
from surefind.engines.milvus.client import Collection, parse
from surefind.engines.registry import open_engine

pytestmark = pytest.mark.milvus


def test_refreshing_tells_whether_rows_came_or_went(milvus, engine):
    other = open_engine(f"{milvus.url}?collection=kept")
    assert not other.refresh()
    engine.add(random_rows(5, 4, 0))
    assert other.refresh() and not other.refresh()
    engine.remove(["row-1"])
    assert other.refresh() and not other.refresh()
    assert other.remove(["row-2"]) == 1
    assert not other.refresh()
    other.close()


def test_writers_in_threads_lose_nothing(engine):
    def write(number: int) -> None:
        for step in range(5):
            engine.add(random_rows(20, 4, step, prefix=f"{number}-{step}"))
            assert engine.remove([f"{number}-{step}-3"]) == 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert engine.count() == 4 * 5 * 19
    assert engine.verify() == []


def test_a_collection_made_anew_is_not_taken_for_the_old_one(milvus, new_url, make):
    url = new_url()
    old, same = make(url), open_engine(url)
    old.add(random_rows(5, 4, 0))
    old._collection.call("drop_collection")
    old.close()
    with pytest.raises(EngineError, match="collection not found"):
        same.refresh()
    with pytest.raises(EngineError, match="closed"):
        old.count()
    make(url)
    with pytest.raises(EngineError, match="another made"):
        same.refresh()
    same.close()


def test_an_index_lost_between_two_builds_is_built_when_opened(new_url, make, monkeypatch):
    monkeypatch.setattr(module, "MANY", 50)
    url = new_url()
    engine = make(url)
    engine.add(random_rows(60, 4, 0))

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_build_index", killed)
    with pytest.raises(KeyboardInterrupt):
        engine.compact()
    monkeypatch.undo()
    assert Collection(parse(url)).index() is None
    again = open_engine(url)
    assert again.count() == 60 and again.exact
    assert np.isfinite(again.search(np.zeros((1, 5), np.float32), 60).distance).sum() == 60
    again.close()


def test_a_released_collection_is_loaded_when_read(new_url, make):
    url = new_url()
    engine = make(url)
    engine.add(random_rows(6, 4, 0))
    other = Collection(parse(url))
    other.call("release_collection")
    other.close()
    assert engine.count() == 6
