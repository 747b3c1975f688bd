"""Distances to the neighbours of every row: as brute force, also for rows that come later."""

import numpy as np
import pytest
from galleries import FAMILIES, random_rows
from looking import nearest_rows, squared
from memory_engine import MemoryEngine
from stores import made

from surefind.engines.engine import Rows
from surefind.engines.space import Space
from surefind.search import neighbourhoods as module
from surefind.search.neighbourhoods import WIDTH, Neighbourhoods, known_around

DIM = 4


def space(family: str = "gaussian", ranking: str = "mean") -> Space:
    return Space(family, DIM, ranking)


def engine_with(place, rows: Rows, *, kind: str = "flat", family: str = "gaussian"):
    engine = made(place, kind=kind, space=space(family))
    engine.add(rows)
    return engine


def brute_force(rows: Rows, row: int, count: int = WIDTH) -> list[float]:
    means = rows.embeddings.mean.double().numpy()
    near = nearest_rows(means[row], means, but=[row], count=count)
    return [squared(means[row], means[other]) for other in near]


def keys_of(engine):
    return np.concatenate([block.keys for block in engine.scan()])


@pytest.mark.parametrize("family", FAMILIES)
def test_they_are_those_of_brute_force(tmp_path, family):
    rows = random_rows(50, DIM, seed=0, family=family)
    engine = engine_with(tmp_path / "store", rows, family=family)
    around = Neighbourhoods.of(engine, ranking="mean")
    assert len(around) == 50
    for row, found in enumerate(around.around(rows.ids)):
        assert found == pytest.approx(brute_force(rows, row), rel=1e-5)


def test_by_expected_distance_they_are_the_means_of_the_expected_neighbours(tmp_path):
    rows = random_rows(60, DIM, seed=1)
    engine = MemoryEngine(space(ranking="expected"))
    engine.add(rows)
    found = Neighbourhoods.of(engine, ranking="expected").around(rows.ids)
    means, var = rows.embeddings.mean.double().numpy(), rows.embeddings.var.double().numpy()
    for row, its in enumerate(found):
        to_all = [squared(means[row], other) for other in means]
        near = sorted(range(60), key=lambda n: to_all[n] + DIM * var[n])[: WIDTH + 1]
        wanted = sorted(to_all[n] for n in near if n != row)[:WIDTH]
        assert its == pytest.approx(wanted, rel=1e-5)


def test_many_rows_are_looked_at_a_few_at_a_time(tmp_path, monkeypatch):
    engine = engine_with(tmp_path / "store", random_rows(50, DIM, seed=2))
    whole = Neighbourhoods.of(engine, ranking="mean")
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    told: list[int] = []
    parts = Neighbourhoods.of(engine, ranking="mean", progress=told.append)
    assert told == [7, 14, 21, 28, 35, 42, 49, 50]
    assert np.array_equal(parts.codes, whole.codes)
    assert np.array_equal(parts.distances, whole.distances)


def test_rows_that_came_later_are_looked_at_when_they_are_hit(tmp_path):
    engine = engine_with(tmp_path / "store", random_rows(40, DIM, seed=3))
    before = Neighbourhoods.of(engine, ranking="mean")
    late = random_rows(8, DIM, seed=4, prefix="late")
    engine.add(late)
    fresh = Neighbourhoods.of(engine, ranking="mean")
    keys = keys_of(engine)
    ids = engine.rows(keys).ids
    found = known_around(engine, before, keys, ids, ranking="mean")
    new = np.array([name.startswith("late") for name in ids])
    assert new.sum() == 8
    assert found[new] == pytest.approx(fresh.around(ids)[new])
    assert np.array_equal(found[~new], before.around(ids)[~new])


def test_an_unknown_id_has_no_distances(tmp_path):
    rows = random_rows(30, DIM, seed=5)
    around = Neighbourhoods.of(engine_with(tmp_path / "store", rows), ranking="mean")
    found = around.around(["nobody", "row-7", "row-77"])
    assert np.isnan(found[[0, 2]]).all()
    assert found[1] == pytest.approx(brute_force(rows, 7), rel=1e-5)


def test_an_empty_gallery_knows_nobody(tmp_path):
    empty = Neighbourhoods.of(made(tmp_path / "store", space=space()), ranking="mean")
    assert len(empty) == 0
    assert np.isnan(empty.around(["row-1"])).all()
    assert len(Neighbourhoods.from_bytes(empty.to_bytes())) == 0


def test_bytes_bring_back_the_same(tmp_path):
    rows = random_rows(30, DIM, seed=6)
    around = Neighbourhoods.of(engine_with(tmp_path / "store", rows), ranking="mean")
    again = Neighbourhoods.from_bytes(around.to_bytes())
    assert np.array_equal(again.codes, around.codes)
    assert np.array_equal(again.around(rows.ids), around.around(rows.ids))
    assert again.to_bytes() == around.to_bytes()


@pytest.mark.parametrize("copies", [2, 30])
def test_duplicates_are_at_distance_zero_and_a_row_is_not_its_own_neighbour(tmp_path, copies):
    rows = random_rows(60, DIM, seed=7)
    chosen = np.repeat(np.arange(60 // copies), copies).tolist()
    rows = Rows(rows.ids, rows.embeddings[chosen], rows.digests, rows.metadata)
    found = Neighbourhoods.of(engine_with(tmp_path / "store", rows), ranking="mean")
    for row, its in enumerate(found.around(rows.ids)):
        assert (its == 0).sum() == min(copies - 1, WIDTH)
        assert its == pytest.approx(brute_force(rows, row), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("count", [1, 2, 10, 21, 22])
def test_where_there_are_fewer_neighbours_the_last_one_is_repeated(tmp_path, count):
    rows = random_rows(count, DIM, seed=8)
    found = Neighbourhoods.of(engine_with(tmp_path / "store", rows), ranking="mean")
    for row, its in enumerate(found.around(rows.ids)):
        near = brute_force(rows, row) or [0.0]
        wanted = (near + [near[-1]] * WIDTH)[:WIDTH]
        assert its == pytest.approx(wanted, rel=1e-5)
