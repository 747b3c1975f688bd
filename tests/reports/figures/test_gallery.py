"""Queries beside what was found for them."""

import dataclasses

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from PIL import Image

from surefind.reports.figures.gallery import draw_gallery
from surefind.reports.figures.missing import NothingToDraw
from surefind.reports.figures.palette import INK, PALE, RIGHT, WRONG
from surefind.reports.figures.thumbnail import SIDE, thumbnail

GREY_TILE = np.array([round(255 * part) for part in to_rgb(PALE)])


def test_frames_and_marks_say_which_hits_match(evaluation):
    result, queries = evaluation
    (axis,) = draw_gallery(result, queries, rows=[3, 7], title="some").axes
    matches = queries.hits("means")[[3, 7], :5].ravel()
    frames = [(to_hex(patch.get_edgecolor()), patch.get_linestyle()) for patch in axis.patches]
    expected = [(RIGHT, "solid") if match else (WRONG, "dashed") for match in matches]
    assert [frame for frame in frames if frame[0] != INK] == expected
    marks = [text.get_text()[0] for text in axis.texts if text.get_text()[0] in "✓✗"]
    assert marks == ["✓" if match else "✗" for match in matches]


def test_a_row_shows_the_query_and_its_five_nearest(evaluation):
    result, queries = evaluation
    figure = draw_gallery(result, queries, rows=[3], title="The surest")
    (axis,) = figure.axes
    paths = [queries["path"][3], *(queries[f"means.hit_{rank}"][3] for rank in range(1, 6))]
    for image, path in zip(axis.images, paths, strict=True):
        np.testing.assert_array_equal(image.get_array(), thumbnail(result.about.root, path))
    assert figure.get_suptitle() == "The surest"
    assert axis.texts[0].get_text() == queries["label"][3]


def test_foreign_queries_come_from_their_own_folder(evaluation):
    result, queries = evaluation
    (axis,) = draw_gallery(result, queries, rows=[130], title="foreign").axes
    expected = thumbnail(result.about.foreign_root, queries["path"][130])
    np.testing.assert_array_equal(axis.images[0].get_array(), expected)
    assert axis.texts[0].get_text() == "foreign"


def test_a_missing_picture_becomes_a_grey_tile(evaluation, tmp_path):
    result, queries = evaluation
    elsewhere = dataclasses.replace(
        result, about=dataclasses.replace(result.about, root="/nowhere")
    )
    (axis,) = draw_gallery(elsewhere, queries, rows=[0], title="lost").axes
    assert (np.asarray(axis.images[0].get_array()) == GREY_TILE).all()


def test_a_thumbnail_holds_the_whole_picture(tmp_path):
    Image.new("RGB", (400, 100), "black").save(tmp_path / "wide.png")
    tile = thumbnail(tmp_path, "wide.png")
    assert tile.shape == (SIDE, SIDE, 3)
    assert (tile[SIDE // 2] == 0).all()
    assert (tile[0] == GREY_TILE).all()


def test_no_rows_are_one_clear_error(evaluation):
    with pytest.raises(NothingToDraw, match="there is no such query"):
        draw_gallery(*evaluation, rows=[], title="None")
