"""Whatever was done to an index, it answers as a plain dictionary does."""

import numpy as np
import pytest
from memory_engine import MemoryEngine
from stores import FACTS, QUERIES, SPACE, answers, contents, made, opened, some_rows

from surefind.engines.base import Rows
from surefind.engines.embedded.engine import EmbeddedEngine
from surefind.engines.filters import Where

WHERE = Where.parse(["label in a,b", "year<2005"])
pytestmark = pytest.mark.usefixtures("small_blocks")


def chosen(rows: Rows, numbers: np.ndarray) -> Rows:
    return Rows(
        tuple(rows.ids[n] for n in numbers),
        rows.embeddings[numbers.tolist()],
        tuple(rows.digests[n] for n in numbers),
        tuple(rows.metadata[n] for n in numbers),
    )


def keys_of(engine: EmbeddedEngine) -> list[int]:
    return [key for block in engine.scan() for key in block.keys.tolist()]


def same(engine: EmbeddedEngine, model: MemoryEngine) -> None:
    assert contents(engine) == contents(model)
    assert answers(engine) == answers(model)
    assert engine.count(WHERE) == model.count(WHERE)
    ids = engine.rows(np.array(keys_of(engine), int)).ids
    assert engine.digests_of([*ids, "nobody"]) == model.digests_of(ids)
    digests = [digest for digest in model.digests_of(ids).values() if digest]
    assert engine.ids_of([*digests, "0" * 64, "", "no digest"]) == model.ids_of(digests)
    found, wanted = engine.search(QUERIES, 50, WHERE), model.search(QUERIES, 50, WHERE)
    np.testing.assert_allclose(found.distance, wanted.distance, atol=1e-5)
    np.testing.assert_allclose(found.var, wanted.var)
    assert np.array_equal(found.vectors, wanted.vectors)


@pytest.mark.parametrize("seed", range(4))
def test_a_random_history_ends_as_in_a_dictionary(place, seed: int):
    random = np.random.default_rng(seed)
    engine, model = made(place), MemoryEngine(SPACE, FACTS)
    for step in range(40):
        chance = random.random()
        if chance < 0.6:
            pool = some_rows(40, seed=100 * seed + step)
            rows = chosen(pool, random.permutation(40)[: random.integers(0, 12)])
            engine.add(rows)
            model.add(rows)
        elif chance < 0.9:
            gone = [f"row-{n}" for n in random.integers(0, 50, random.integers(1, 15))]
            assert engine.remove(gone) == model.remove(gone)
        else:
            before = keys_of(engine)
            engine.compact()
            assert engine.describe()["removed"] == 0 and keys_of(engine) == before
        if random.random() < 0.3:
            engine.close()
            engine = opened(place)
        if step % 5 == 4:
            same(engine, model)
            assert engine.verify() == []
    same(opened(place), model)


def test_an_index_with_many_dead_rows_is_compacted(place):
    engine = made(place)
    engine.add(some_rows(10, 1))
    engine.remove([f"row-{n}" for n in range(3)])
    assert engine.describe()["removed"] == 3
    engine.remove(["row-3"])
    assert engine.describe()["removed"] == 0 and engine.count() == 6
    engine.remove([f"row-{n}" for n in range(10)])
    assert engine.count() == 0 and engine.search(QUERIES, 3).keys.shape == (5, 0)
    engine.compact()
    engine.add(some_rows(1, 1))
    assert list(next(opened(place).scan()).keys) == [10]  # keys are never given out again


def test_what_changes_nothing_makes_no_version(place):
    engine = made(place)
    engine.add(some_rows(3, 1))
    version = engine.describe()["version"]
    engine.add(some_rows(0, 1))
    assert engine.remove(["nobody", "\ud800"]) == 0
    engine.compact()
    assert engine.describe()["version"] == version
