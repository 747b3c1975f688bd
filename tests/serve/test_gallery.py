"""Names of images in URLs, an even sample of a gallery, histograms and curves of it."""

import base64
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from galleries import FAMILIES, random_rows
from hypothesis import given
from hypothesis import strategies as st
from memory_engine import MemoryEngine

from surefind.engines.engine import LONGEST_ID, EngineError
from surefind.engines.space import Space
from surefind.search.confidence.calibration import Curve
from surefind.serve.gallery import (
    BINS,
    GallerySample,
    id_of,
    item_of,
    reliability,
    sample_gallery,
    threshold_curve,
    variance_histogram,
)

DIM = 6

# names

PROPER = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
).filter(lambda name: len(name.encode()) <= LONGEST_ID)
ITEM_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@given(PROPER)
def test_every_id_comes_back_from_one_plain_step_of_a_url(name: str):
    assert id_of(item_of(name)) == name
    assert set(item_of(name)) <= set(ITEM_LETTERS)


@given(st.text() | st.text(ITEM_LETTERS))
def test_whatever_is_taken_is_exactly_what_would_be_written(item: str):
    name = id_of(item)
    assert name is None or item_of(name) == item


def test_the_longest_id_has_an_item_and_a_longer_one_has_none():
    assert id_of(item_of("x" * LONGEST_ID)) == "x" * LONGEST_ID
    assert id_of(item_of("x" * (LONGEST_ID + 1))) is None


@pytest.mark.parametrize(
    "item",
    [
        *("", "A", "..", "../../etc/passwd", "%2e%2e", "YS+/", "YQ\0", "\u00e4\u00e4", "\ud800"),
        "YS9iLnBuZw==",
        "YS9iLnBuZw\n",
        "YS9iLnBuZx",  # the same bytes, with other bits after them
        encoded(b"a\0b"),
        encoded(b"\xff\xfe"),
        encoded(b"\xc0\xaf"),  # a slash in too many bytes
        encoded(b"\xed\xa0\x80"),  # half a surrogate pair
        "A" * 10**6,
    ],
)
def test_what_is_no_item_is_none(item: str):
    assert id_of(item) is None


# a sample


def engine_of(count: int, *, family: str = "gaussian") -> MemoryEngine:
    engine = MemoryEngine(Space(family, DIM, "mean"))
    engine.add(random_rows(count, DIM, seed=0, family=family))
    return engine


@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_gallery_is_sampled_whole(family):
    rows = random_rows(40, DIM, seed=0, family=family)
    engine = engine_of(40, family=family)
    found = sample_gallery(engine)
    assert sorted(found.ids) == sorted(rows.ids)
    assert (len(found), len(found.every_var), found.of) == (40, 40, 40)
    order = [rows.ids.index(name) for name in found.ids]
    assert found.means == pytest.approx(rows.embeddings.mean.numpy()[order], abs=1e-6)
    assert found.var == pytest.approx(engine.space.var(rows.embeddings)[order], rel=1e-5)
    assert found.labels == tuple(rows.metadata[row]["label"] for row in order)


def test_an_empty_gallery_has_an_empty_sample():
    found = sample_gallery(engine_of(0))
    assert (len(found), found.of, found.labelled, found.to_try()) == (0, 0, False, [])
    assert (found.means.shape, found.var.shape, found.every_var.shape) == ((0, DIM), (0,), (0,))


def test_no_more_rows_are_looked_at_than_allowed_and_it_says_so():
    found = sample_gallery(engine_of(100), most=10, look_at=60)
    assert (len(set(found.ids)), len(found.every_var), found.of) == (10, 60, 100)


def test_looking_ends_with_the_block_that_is_enough():
    engine = engine_of(30)
    whole = next(engine.scan())

    def scan():
        yield whole
        raise AssertionError("looked on")

    engine.scan = scan
    assert len(sample_gallery(engine, look_at=30)) == 30


def test_every_row_is_drawn_as_often_as_any_other():
    """Ids in another order each time: the same places of the order are drawn."""
    drawn = Counter[str]()
    for seed in range(200):
        engine = MemoryEngine(Space("gaussian", DIM, "mean"))
        rows, order = random_rows(50, DIM, seed=0), np.random.default_rng(seed).permutation(50)
        engine.add(replace(rows, ids=tuple(rows.ids[row] for row in order)))
        drawn.update(sample_gallery(engine, most=10).ids)
    counts = np.array([drawn[f"row-{row}"] for row in range(50)])
    chi_squared = float(((counts - 40.0) ** 2 / (40.0 * 0.8)).sum())
    assert counts.sum() == 2000 and chi_squared < 85  # exceeded once in 1,000


def test_a_label_is_a_text_and_may_be_missing():
    engine = engine_of(0)
    rows = random_rows(2, DIM, seed=0)
    engine.add(type(rows)(rows.ids, rows.embeddings, rows.digests, ({"label": 7}, {})))
    found = sample_gallery(engine)
    assert dict(zip(found.ids, found.labels, strict=True)) == {"row-0": "7", "row-1": None}
    assert found.labelled


@pytest.mark.parametrize("failures", [2, 3])
def test_a_row_that_is_removed_meanwhile_is_forgiven_an_engine_that_fails_is_not(
    failures,
):
    engine = engine_of(20)
    rows, left = engine.rows, [EngineError("gone")] * failures

    def rows_at_last(keys):
        if left:
            raise left.pop()
        return rows(keys)

    engine.rows = rows_at_last
    if failures == 2:
        assert len(sample_gallery(engine)) == 20
    else:
        with pytest.raises(EngineError, match="gone"):
            sample_gallery(engine)


def labelled(labels: list[str | None]) -> GallerySample:
    ids = tuple(f"{number:03d}.png" for number in range(len(labels)))
    some = np.ones(len(labels))
    return GallerySample(ids, tuple(labels), some, np.zeros((len(ids), 2), "f4"), some, len(ids))


def test_images_to_try_have_different_labels_while_there_are():
    rows = labelled(["a", "a", "a", "a", "b", "b", "c", "c", "c"]).to_try(5)
    assert [row.name[:3] for row in rows] == ["000", "004", "006", "001", "005"]
    assert rows[0].thumbnail == f"/v1/items/{item_of('000.png')}/thumbnail"
    assert [row.name[:3] for row in labelled([None] * 20).to_try(2)] == ["000", "001"]


# variances


@given(st.lists(st.floats(1e-12, 1e6), max_size=60).map(np.array))
def test_every_image_is_counted_once(var):
    found = variance_histogram(var, of=len(var))
    assert sum(found.counts) in (0, len(var))
    assert len(found.edges) == (len(found.counts) + 1 if found.counts else 0)


def test_counts_are_those_of_a_loop_over_bins_that_are_even_in_log():
    var = np.exp(np.random.default_rng(0).normal(size=500))
    found = variance_histogram(var, of=1000)
    edges = found.edges
    assert (edges[0], edges[-1]) == (var.min(), var.max())
    assert np.diff(np.log(edges)) == pytest.approx(np.log(edges[-1] / edges[0]) / BINS)
    for place, count in enumerate(found.counts):
        last = place == BINS - 1
        inside = [v for v in var if edges[place] <= v and (v < edges[place + 1] or last)]
        assert len(inside) == count
    assert (found.images, found.of, found.median) == (500, 1000, np.median(var))


@pytest.mark.parametrize("var", [[], [0.1], [0.1, 0.1], [0.1, 0.1 * (1 + 1e-7)]])
def test_where_variances_are_equal_there_is_no_histogram(var):
    found = variance_histogram(np.array(var), of=9)
    assert (found.edges, found.counts, found.images, found.of) == ([], [], len(var), 9)
    assert (found.median is None) == (not var)


# thresholds and reliability


def curve_of(queries: list[tuple[float, bool]]) -> Curve:
    sure, right = zip(*queries, strict=True) if queries else ((), ())
    return Curve(tuple(sure), (0.5,) * len(queries), tuple(right))


@pytest.mark.parametrize("count", [0, 1, 200])
def test_rows_are_those_of_a_loop(count):
    random = np.random.default_rng(count)
    sure = random.integers(0, 101, count) / 100  # also exactly at the thresholds
    queries = [(float(p), bool(random.random() < p)) for p in sure]
    rows = threshold_curve(curve_of(queries))
    assert [row.threshold for row in rows] == [n / 100 for n in range(101)]
    for row in rows:
        kept = [right for p, right in queries if p >= row.threshold]
        assert (row.answered, row.right) == (len(kept), sum(kept))
        assert row.coverage == len(kept) / max(count, 1)
        assert row.precision == (sum(kept) / len(kept) if kept else None)


def test_the_promised_threshold_has_a_row_of_its_own():
    curve = curve_of([(0.9, True), (0.715, True), (0.71, False)])
    rows = threshold_curve(curve, promised=0.715)
    assert [row.threshold for row in rows][70:74] == [0.7, 0.71, 0.715, 0.72]
    assert (rows[72].answered, rows[72].right) == (2, 2)
    assert threshold_curve(curve, promised=0.71) == threshold_curve(curve)


def test_bins_are_those_of_a_loop():
    random = np.random.default_rng(1)
    queries = [(float(p), bool(random.random() < p)) for p in random.random(50)]
    ordered = sorted(queries)
    found = reliability(curve_of(queries), bins=5)
    assert [row.queries for row in found] == [10] * 5
    for place, row in enumerate(found):
        some = ordered[10 * place : 10 * place + 10]
        assert row.confidence == pytest.approx(math.fsum(sure for sure, _ in some) / 10)
        assert row.right == pytest.approx(sum(right for _, right in some) / 10)


def test_queries_of_equal_confidence_share_a_bin_and_empty_bins_are_left_out():
    (row,) = reliability(curve_of([(0.7, True), (0.7, False), (0.7, True)]))
    assert (row.confidence, row.right, row.queries) == (pytest.approx(0.7), pytest.approx(2 / 3), 3)
    assert reliability(curve_of([])) == []
