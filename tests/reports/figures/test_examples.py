"""Example queries: their selection, frames and captions."""

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from PIL import Image

from surefind.reports.figures.examples import (
    SIDE,
    by_uncertainty,
    draw_extremes,
    draw_own_and_foreign,
    draw_pairs,
    thumbnail,
)
from surefind.reports.figures.style import INK, PALE, RIGHT, WRONG
from surefind.reports.result import QueryTable, Report

MARKS = {True: (RIGHT, "solid"), False: (WRONG, "dashed")}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("top_hit", [None, False, True])
@pytest.mark.parametrize("foreign", [False, True])
def test_queries_are_sorted_as_by_a_loop(evaluation, foreign, top_hit, descending):
    columns = dict(evaluation[1].columns)  # every other query has no match
    columns["n_matches"] = np.where(np.arange(150) % 2, columns["n_matches"], 0)
    rows = []
    for row in range(150):
        scored = columns["n_matches"][row] > 0
        if top_hit is not None and columns["means.match_1"][row] != top_hit:
            scored = False
        if scored or (foreign and columns["foreign"][row]):
            value = float(columns["means.signal.ratio_1_2"][row])
            rows.append((-value if descending else value, row))
    options = {"foreign": foreign, "top_hit": top_hit, "descending": descending}
    found = by_uncertainty(QueryTable(columns), "ratio_1_2", **options)
    assert found.tolist() == [row for _, row in sorted(rows)]
    assert len(rows) > 10


def frames(axis) -> list[tuple[str, str]]:
    return [(to_hex(patch.get_edgecolor()), patch.get_linestyle()) for patch in axis.patches]


def first_lines(axis) -> list[str]:
    """Beneath the tiles, without the headings and the numbers."""
    sizes = [text.get_fontsize() for text in axis.texts]
    small = [t.get_text() for t, size in zip(axis.texts, sizes, strict=True) if size == min(sizes)]
    return small[::2]


def headings(axis) -> list[str]:
    return [text.get_text() for text in axis.texts if text.get_fontsize() == 9]


GREY_TILE = np.array([round(255 * part) for part in to_rgb(PALE)])


def test_a_thumbnail_holds_the_whole_picture_or_is_grey(tmp_path):
    Image.new("RGB", (400, 100), "black").save(tmp_path / "wide.png")
    tile = thumbnail(tmp_path, "wide.png")
    assert tile.shape == (SIDE, SIDE, 3)
    assert (tile[SIDE // 2] == 0).all()
    assert (tile[0] == GREY_TILE).all()
    assert (thumbnail(tmp_path, "missing.png") == GREY_TILE).all()


def test_extremes_are_twelve_and_twelve_framed_by_their_top_hit(evaluation):
    result, queries = evaluation
    (axis,) = draw_extremes(result, queries).axes
    order = by_uncertainty(queries, "query_var")
    rows = [*order[:12], *order[::-1][:12]]
    right = queries["means.match_1"][rows].tolist()
    assert frames(axis) == [MARKS[match] for match in right]
    names = [f"{'✓' if match else '✗'} {queries['label'][row]}" for row, match in zip(rows, right, strict=True)]
    assert first_lines(axis) == names
    wrong = [12 - sum(right[:12]), 12 - sum(right[12:])]
    assert headings(axis) == [f"Surest: {wrong[0]} of 12 wrong", f"Least sure: {wrong[1]} of 12 wrong"]


def test_pairs_show_queries_above_their_right_nearest_hits(evaluation):
    result, queries = evaluation
    (axis,) = draw_pairs(result, queries).axes
    rows = by_uncertainty(queries, "pair_var", top_hit=True)
    paths = []
    for some in (rows[:6], rows[::-1][:6]):
        paths += [queries["path"][row] for row in some]
        paths += [queries["means.hit_1"][row] for row in some]
    for image, path in zip(axis.images, paths, strict=True):
        np.testing.assert_array_equal(image.get_array(), thumbnail(result.about.root, path))
    assert frames(axis) == 2 * (6 * [(INK, "solid")] + 6 * [MARKS[True]])
    assert headings(axis) == ["Most certain", "Least certain"]


def test_foreign_queries_are_marked_among_the_least_sure_of_each_report(evaluation):
    result, queries = evaluation
    (axis,) = draw_own_and_foreign([Report("A", result, queries), Report("B", result, queries)]).axes
    rows = by_uncertainty(queries, "pair_var", foreign=True, descending=True)[:12]
    foreign = queries["foreign"][rows]
    expected = [MARKS[False] if each else (INK, "solid") for each in foreign]
    assert frames(axis) == 2 * expected
    assert first_lines(axis)[:12] == ["foreign" if queries["foreign"][row] else queries["label"][row] for row in rows]
    first = next(at for at, each in enumerate(foreign) if each)
    pictured = thumbnail(result.about.foreign_root, queries["path"][rows[first]])
    np.testing.assert_array_equal(axis.images[first].get_array(), pictured)
    assert headings(axis)[1].startswith(f"B: {foreign.sum()} of 12 foreign by variance of the pair")
    assert "(of all queries 20 %)" in headings(axis)[1]
