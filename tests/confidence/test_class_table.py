"""Numbers, means and spreads of classes, against plain loops."""

import numpy as np
import pytest
from clusters import DIM, cluster_engine
from label_galleries import Labelled, overlapping

from surefind.confidence.class_table import ClassTable, is_missing, label_of

GALLERY = overlapping(5, 8, unlabelled=0.2)


def assert_same_classes(one: ClassTable, other: ClassTable) -> None:
    """The same rows, in whatever order the classes came; empty classes do not count."""
    for table, reference in ((one, other), (other, one)):
        for code, name in enumerate(table.names):
            if not table.counts[code]:
                assert not table.sums[code].any() and not table.squares[code]
                continue
            its = reference.codes[name]
            assert table.counts[code] == reference.counts[its]
            assert table.sums[code] == pytest.approx(reference.sums[its], abs=1e-5)
            assert table.squares[code] == pytest.approx(reference.squares[its], rel=1e-5)


def test_counts_sums_and_squares_are_those_of_a_plain_loop():
    table = ClassTable.empty(DIM).changed(GALLERY.vectors, GALLERY.labels)
    for name in set(GALLERY.labels) - {None}:
        count, total, squares = 0, np.zeros(DIM), 0.0
        for vector, label in zip(GALLERY.vectors, GALLERY.labels, strict=True):
            if label == name:
                count, total, squares = count + 1, total + vector, squares + vector @ vector
        code = table.codes[name]
        assert table.counts[code] == count
        assert table.sums[code] == pytest.approx(total)
        assert table.squares[code] == pytest.approx(squares)
    assert (table.classes, table.images) == (5, int((GALLERY.codes >= 0).sum()))


def test_the_spread_is_the_pooled_variance_of_rows_around_their_class_means():
    within = [GALLERY.vectors[GALLERY.codes == code] for code in range(5)]
    scatter = sum(np.square(its - its.mean(axis=0)).sum() for its in within)
    wanted = scatter / sum(len(its) - 1 for its in within)
    assert GALLERY.table.spread == pytest.approx(wanted)


@pytest.mark.parametrize("rows", [[], [3]])
def test_without_a_class_of_two_images_the_spread_is_zero(rows):
    assert GALLERY.at(rows).table.spread == 0


def test_rows_added_and_removed_leave_what_was_there_before():
    before = GALLERY.table
    more = overlapping(9, 2, seed=1)  # some classes are new
    after = before.changed(more.vectors, more.labels).changed(more.vectors, more.labels, times=-1)
    assert_same_classes(before, after)
    assert after.classes == 5 and after.spread == pytest.approx(before.spread)


def test_a_class_without_rows_has_no_rounding_errors_left():
    vectors = np.full((3, DIM), 0.1) * [[1], [3], [7]]
    table = ClassTable.empty(DIM).changed(vectors, ["a"] * 3)
    for row in (0, 1, 2):
        table = table.changed(vectors[[row]], ["a"], times=-1)
    assert table.counts[0] == table.squares[0] == 0 and not table.sums.any()


@pytest.mark.parametrize("label", [None, float("nan"), ""])
def test_a_label_that_is_nothing_is_none(label):
    assert is_missing(label) and label_of({"label": label}) is None
    table = GALLERY.table
    assert table.changed(np.ones((1, DIM)), [label_of({"label": label})]) is table


def test_labels_are_texts_of_the_field_asked_for():
    assert label_of({"label": 3, "species": "wren"}) == "3"
    assert label_of({"label": 3, "species": "wren"}, "species") == "wren"
    assert label_of({"label": 0}) == "0" and label_of({"label": False}) == "False"
    assert label_of({}) is None


def test_codes_of_unknown_labels_are_minus_one():
    table = GALLERY.table
    assert table.codes_of(["class 3", None, "nobody", "class 0"]).tolist() == [3, -1, -1, 0]


def test_bytes_give_the_same_table_again():
    table = ClassTable.empty(DIM, "species", revision=("name", 7))
    for its in (table, table.changed(GALLERY.vectors, GALLERY.labels)):
        again = ClassTable.from_bytes(its.to_bytes())
        assert (again.field, again.names, again.revision) == ("species", its.names, ("name", 7))
        assert_same_classes(its, again)
        assert again.sums.shape == its.sums.shape


def test_all_rows_of_an_engine_are_read(tmp_path):
    labelled = Labelled(GALLERY.vectors, np.maximum(GALLERY.codes, 0))
    engine = cluster_engine(tmp_path / "store", labelled.embeddings, labelled.labels)
    assert_same_classes(ClassTable.of(engine), labelled.table)
    assert ClassTable.of(engine).revision == engine.revision
    assert ClassTable.of(engine, "species").names == ()
