"""An even sample of a gallery: whole where small, fair where large, the same each time."""

from collections import Counter

import numpy as np
import pytest
from galleries import FAMILIES, random_rows
from memory_engine import MemoryEngine
from stores import filled, made

from surefind.engines.engine import Engine, EngineError
from surefind.engines.space import Space
from surefind.search.index import Index
from surefind.serve.gallery.items import item_of
from surefind.serve.gallery.sketch import sketch

DIM = 6


def engine_of(
    kind: str, place, count: int, *, family: str = "gaussian", ranking: str = "mean"
) -> Engine:
    space = Space(family, DIM, ranking)
    engine = MemoryEngine(space) if kind == "memory" else made(place / "store", space=space)
    if count:
        engine.add(random_rows(count, DIM, seed=0, family=family))
    return engine


@pytest.mark.parametrize("ranking", ["mean", "expected"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["memory", "faiss"])
def test_a_small_gallery_is_sketched_whole(tmp_path, kind, family, ranking):
    rows = random_rows(40, DIM, seed=0, family=family)
    engine = engine_of(kind, tmp_path, 40, family=family, ranking=ranking)
    found = sketch(engine)
    assert sorted(found.ids) == sorted(rows.ids)
    assert (found.images, found.of, len(found)) == (40, 40, 40)
    order = [rows.ids.index(name) for name in found.ids]
    assert found.means == pytest.approx(rows.embeddings.mean.numpy()[order], abs=1e-6)
    assert found.var == pytest.approx(engine.space.var(rows.embeddings)[order], rel=1e-5)
    assert found.labels == tuple(rows.metadata[row]["label"] for row in order)
    assert found.items == tuple(map(item_of, found.ids))


@pytest.mark.parametrize("kind", ["memory", "faiss"])
def test_an_empty_gallery_has_an_empty_sketch(tmp_path, kind):
    found = sketch(engine_of(kind, tmp_path, 0))
    assert (len(found), found.images, found.of, found.labelled) == (0, 0, 0, False)
    assert (found.means.shape, found.var.shape, found.every_var.shape) == ((0, DIM), (0,), (0,))


def test_removed_and_replaced_rows_are_not_in_it(tmp_path):
    engine = filled(tmp_path / "store")
    found = sketch(engine)
    assert len(set(found.ids)) == len(found) == engine.count()
    assert engine.digests_of(found.ids).keys() == set(found.ids)


def test_an_index_is_sketched_like_its_engine(tmp_path):
    index = Index.create_empty(tmp_path / "index", Space("gaussian", DIM), fingerprint="f" * 64)
    rows = random_rows(30, DIM, seed=0)
    index.add_embeddings(rows.embeddings, rows.ids, metadata=rows.metadata)
    assert set(sketch(index).ids) == set(rows.ids)


def test_of_many_rows_some_are_taken_and_all_variances_seen(tmp_path):
    engine = engine_of("memory", tmp_path, 100)
    found = sketch(engine, most=10)
    assert (len(found), found.images, found.of) == (10, 100, 100)
    assert sorted(found.every_var) == pytest.approx(sorted(engine.scan().__next__().var))


@pytest.mark.parametrize("kind", ["memory", "faiss"])
def test_no_more_rows_are_looked_at_than_allowed_and_it_says_so(tmp_path, kind):
    found = sketch(engine_of(kind, tmp_path, 100), most=10, look_at=60)
    assert (len(found), found.images, found.of) == (10, 60, 100)
    assert len(found.every_var) == 60


def test_looking_ends_with_the_block_that_is_enough(tmp_path):
    engine = engine_of("memory", tmp_path, 30)
    whole = next(engine.scan())

    def scan():
        yield whole
        raise AssertionError("looked on")

    engine.scan = scan
    assert sketch(engine, look_at=30).images == 30


def test_the_same_seed_gives_the_same_sketch_and_another_seed_another(tmp_path):
    engine = engine_of("faiss", tmp_path, 200)
    first = sketch(engine, most=20, seed=3)
    assert sketch(engine, most=20, seed=3).ids == first.ids
    assert sketch(engine, most=20, seed=4).ids != first.ids


def test_a_few_new_rows_change_little(tmp_path):
    engine = engine_of("faiss", tmp_path, 200)
    before = set(sketch(engine, most=50).ids)
    engine.add(random_rows(4, DIM, seed=1, prefix="new"))
    assert len(before & set(sketch(engine, most=50).ids)) >= 46


def test_the_first_of_a_sketch_are_the_smaller_sketch(tmp_path):
    engine = engine_of("memory", tmp_path, 100)
    assert sketch(engine, most=50).ids[:10] == sketch(engine, most=10).ids


def test_every_row_is_drawn_as_often_as_any_other(tmp_path):
    engine = engine_of("memory", tmp_path, 50)
    drawn = Counter(name for seed in range(200) for name in sketch(engine, most=10, seed=seed).ids)
    counts = np.array([drawn[f"row-{row}"] for row in range(50)])
    assert counts.sum() == 2000
    expected = 40.0
    chi_squared = float(((counts - expected) ** 2 / (expected * 0.8)).sum())
    assert chi_squared < 85  # of 49 degrees of freedom, exceeded once in 1,000


def test_keys_that_are_texts_are_drawn_too(tmp_path):
    engine = engine_of("memory", tmp_path, 50)
    whole, rows = next(engine.scan()), engine.rows
    engine.scan = lambda: iter(
        [whole._replace(keys=np.array([f"k{key}" for key in whole.keys], object))]
    )
    engine.rows = lambda keys: rows(np.array([int(key[1:]) for key in keys]))
    assert len(set(sketch(engine, most=10).ids)) == 10


def test_images_without_a_label_have_none(tmp_path):
    engine = engine_of("memory", tmp_path, 0)
    rows = random_rows(2, DIM, seed=0)
    engine.add(type(rows)(rows.ids, rows.embeddings, rows.digests, ({"label": 7}, {})))
    found = sketch(engine)
    assert dict(zip(found.ids, found.labels, strict=True)) == {"row-0": "7", "row-1": None}
    assert found.labelled


def test_a_gallery_without_labels_is_not_labelled(tmp_path):
    engine = engine_of("memory", tmp_path, 0)
    rows = random_rows(2, DIM, seed=0)
    engine.add(type(rows)(rows.ids, rows.embeddings, rows.digests, ({}, {})))
    assert not sketch(engine).labelled


def test_a_row_that_is_removed_meanwhile_is_forgiven(tmp_path):
    engine = engine_of("memory", tmp_path, 20)
    rows, failures = (
        engine.rows,
        [EngineError("gone", fix="again"), EngineError("gone", fix="again")],
    )

    def rows_at_last(keys):
        if failures:
            raise failures.pop()
        return rows(keys)

    engine.rows = rows_at_last
    assert len(sketch(engine)) == 20


def test_an_engine_that_keeps_failing_is_told(tmp_path):
    engine = engine_of("memory", tmp_path, 20)

    def fail(keys):
        raise EngineError("the server is gone", fix="start it")

    engine.rows = fail
    with pytest.raises(EngineError, match="the server is gone"):
        sketch(engine)
