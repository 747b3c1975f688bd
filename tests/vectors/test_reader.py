"""Vectors from files that other programs wrote."""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from surefind.errors import InvalidFile, SurefindError
from surefind.vectors.reader import read_vectors

VALUES = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
NAMES = ["a", "b", "a", "ü"]


@pytest.fixture
def npz(tmp_path: Path):
    def write(**arrays) -> Path:
        np.savez(tmp_path / "some.npz", **arrays)
        return tmp_path / "some.npz"

    return write


@pytest.fixture
def parquet(tmp_path: Path):
    def write(**columns) -> Path:
        pq.write_table(pa.table(columns), tmp_path / "some.parquet")
        return tmp_path / "some.parquet"

    return write


def lists(values=VALUES, kind=None) -> pa.Array:
    return pa.array(values.tolist(), kind or pa.list_(pa.float32()))


@pytest.mark.parametrize(
    ("name", "labels", "ids"), [("vectors", "labels", "ids"), ("X", "y", "paths"), ("features", "classes", "names")]
)
def test_arrays_are_found_by_their_usual_names(npz, name: str, labels: str, ids: str):
    arrays = {name: VALUES, "other": np.ones((2, 2)), labels: NAMES, ids: ["p", "q", "r", "s"]}
    read = read_vectors(npz(**arrays))
    np.testing.assert_array_equal(read.values, VALUES)
    assert read.labels == tuple(NAMES)
    assert read.ids == ("p", "q", "r", "s")


def test_given_names_win_and_a_single_table_needs_none(npz):
    path = npz(x=VALUES, mine=VALUES + 1, y=[0, 1, 2, 3], real=[5, 6, 7, 8], key=[9, 8, 7, 6])
    read = read_vectors(path, vectors="mine", labels="real", ids="key")
    np.testing.assert_array_equal(read.values, VALUES + 1)
    assert read.labels == ("5", "6", "7", "8") and read.ids == ("9", "8", "7", "6")
    alone = read_vectors(npz(arr_0=VALUES))
    np.testing.assert_array_equal(alone.values, VALUES)
    assert (alone.labels, alone.ids) == ((), ("row 0", "row 1", "row 2", "row 3"))


def test_of_several_usual_names_the_one_that_fits_is_taken(npz):
    read = read_vectors(npz(x=VALUES, y=[0, 1, 2, 3], classes=["cat", "dog"]))
    assert read.labels == ("0", "1", "2", "3")


@pytest.mark.parametrize("dtype", ["float16", "float64", "uint8", ">f4"])
def test_numbers_of_any_type_become_float32(npz, dtype: str):
    read = read_vectors(npz(x=np.asfortranarray(VALUES.astype(dtype))))
    assert read.values.dtype == np.float32 and read.values.flags.c_contiguous
    np.testing.assert_array_equal(read.values, VALUES)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (np.array([3, 1, 3, 2]), ("3", "1", "3", "2")),
        (np.array([3.0, 1.0, 3.0, 2.5]), ("3", "1", "3", "2.5")),
        (np.array([b"a", b"b", b"a", "ü".encode()]), ("a", "b", "a", "ü")),
        (np.array([[3], [1], [3], [2]]), ("3", "1", "3", "2")),
    ],
)
def test_labels_become_text(npz, given, text):
    assert read_vectors(npz(x=VALUES, labels=given)).labels == text


def test_a_npy_file_is_read_with_labels_beside_it(tmp_path: Path):
    np.save(tmp_path / "v.npy", VALUES)
    assert read_vectors(str(tmp_path / "v.npy")).labels == ()
    (tmp_path / "v.labels.txt").write_text("a\nb\na\nü\n", encoding="utf-8")
    assert read_vectors(tmp_path / "v.npy").labels == tuple(NAMES)
    np.save(tmp_path / "v.labels.npy", np.array([1, 2, 3, 4]))
    with pytest.raises(InvalidFile, match="labels are in both"):
        read_vectors(tmp_path / "v.npy")
    (tmp_path / "v.labels.txt").unlink()
    read = read_vectors(tmp_path / "v.npy")
    assert read.labels == ("1", "2", "3", "4")
    np.testing.assert_array_equal(read.values, VALUES)


def test_labels_that_are_no_text_are_refused(tmp_path: Path):
    np.save(tmp_path / "v.npy", VALUES)
    (tmp_path / "v.labels.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InvalidFile, match=r"v\.labels\.txt cannot be read as text"):
        read_vectors(tmp_path / "v.npy")


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float16(), 3)])
def test_a_parquet_column_of_lists_is_read(parquet, kind):
    read = read_vectors(parquet(emb=lists(kind=kind), label=NAMES, id=[7, 8, 9, 10]))
    np.testing.assert_array_equal(read.values, VALUES)
    assert read.labels == tuple(NAMES) and read.ids == ("7", "8", "9", "10")


def test_parquet_columns_of_numbers_are_the_dimensions(parquet):
    path = parquet(d0=VALUES[:, 0], y=[0, 1, 2, 3], d1=VALUES[:, 1], d2=VALUES[:, 2], note=NAMES)
    read = read_vectors(path)
    np.testing.assert_array_equal(read.values, VALUES)
    assert read.labels == ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": pa.array([[1.0], [1.0, 2.0]])}, "x: expected plain .* lists of different lengths"),
        ({"x": pa.array([[1.0], None])}, "with missing values"),
        ({"x": pa.array([[1.0], [None]], pa.list_(pa.float32()))}, "with missing values"),
        ({"x": pa.array([["a"], ["b"]])}, "vectors: expected an array .* of real numbers"),
        ({"d": pa.array([1.0, None])}, r"finite numbers .* 1 of 2 rows .*\(first: row 1\)"),
        ({"one": lists(), "two": lists()}, "no vectors, by any common name, among one float32"),
        ({"x": lists(), "label": ["a", None, "b", ""]}, r"2 of 4 missing \(first: row 1\)"),
        ({"x": pa.array([], pa.list_(pa.float32()))}, "lists of different lengths"),
    ],
)
def test_a_parquet_file_that_cannot_be_used_says_why(parquet, columns, message):
    with pytest.raises(InvalidFile, match=message):
        read_vectors(parquet(**columns))


def test_columns_of_the_same_name_are_refused(tmp_path: Path):
    twice = pa.Table.from_arrays([lists(), lists()], names=["x", "x"])
    pq.write_table(twice, tmp_path / "t.parquet")
    with pytest.raises(InvalidFile, match="cannot be read as .parquet"):
        read_vectors(tmp_path / "t.parquet")


def test_parquet_without_its_package_names_the_extra(parquet, monkeypatch: pytest.MonkeyPatch):
    path = parquet(x=lists())
    monkeypatch.setitem(sys.modules, "pyarrow.compute", None)
    with pytest.raises(SurefindError, match=r"surefind\[parquet\]"):
        read_vectors(path)


BAD = VALUES.copy()
BAD[2, 1] = np.nan
ZERO = VALUES * np.array([[1], [0], [1], [0]], dtype=np.float32)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": BAD}, r"finite numbers .* got 1 of 4 rows with others \(first: row 2\)"),
        ({"x": ZERO}, r"2 of 4 vectors are all zeros \(first: row 1\)"),
        ({"x": VALUES[0]}, r"\(N, D\), got shape \(3,\)"),
        ({"x": VALUES, "y": [1, 2, 3]}, "labels: expected 4, one per vector, got 3"),
        ({"x": VALUES, "y": np.array([b"\xff"] * 4)}, "labels: expected text in UTF-8"),
        ({"x": VALUES, "ids": NAMES}, "ids: expected a different one .* got 'a' 2 times"),
        ({"x": VALUES, "ids": NAMES[1:]}, "ids: expected 4, one per vector, got 3"),
        ({"x": VALUES, "features": VALUES}, r"vectors: .* got several in x float32 \(4, 3\)"),
        ({"one": VALUES, "two": VALUES}, r"no vectors.* among one float32 \(4, 3\), two"),
        ({}, "no vectors, by any common name, among nothing"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(npz, arrays, message):
    with pytest.raises(InvalidFile, match=message):
        read_vectors(npz(**arrays))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.npz", "is not there or not a file"),
        ("folder.npy", "is not there or not a file"),
        ("v.pt", r"from \.npz, \.npy, \.parquet, not \.pt"),
    ],
)
def test_a_path_without_a_file_of_a_known_format_is_refused(tmp_path: Path, name: str, message: str):
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(InvalidFile, match=message):
        read_vectors(tmp_path / name)


def test_a_name_that_is_not_there_is_answered_with_the_nearest(npz):
    with pytest.raises(InvalidFile, match=r"(?s)got 'vektors'.*did you mean 'vectors'"):
        read_vectors(npz(vectors=VALUES), vectors="vektors")


def test_objects_are_never_read_and_no_trouble_where_nobody_asked_for_them(tmp_path: Path, npz):
    with pytest.raises(InvalidFile, match="(?s)y: expected plain .*Python objects.*dtype=str"):
        read_vectors(npz(x=VALUES, y=np.array(NAMES, dtype=object)))
    np.save(tmp_path / "o.npy", VALUES.astype(object), allow_pickle=True)
    with pytest.raises(InvalidFile, match="cannot be read as .npy: .*Python objects"):
        read_vectors(tmp_path / "o.npy")
    path = npz(x=VALUES, more=np.array([{}, None], dtype=object))
    np.testing.assert_array_equal(read_vectors(path).values, VALUES)


@pytest.mark.parametrize("rows", [1 << 20, 1 << 50])
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_a_header_that_promises_more_than_the_file_holds_is_refused(tmp_path: Path, ending: str, rows: int):
    content = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, 512)}
    np.lib.format.write_array_header_1_0(content, header)
    lying = content.getvalue() + bytes(100)
    path = tmp_path / f"lying{ending}"
    if ending == ".npy":
        path.write_bytes(lying)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", lying)
    with pytest.raises(InvalidFile, match="cannot be read as"):
        read_vectors(path)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet"])
def test_a_file_of_another_format_or_cut_short_is_refused(tmp_path: Path, ending: str):
    path = tmp_path / f"odd{ending}"
    if ending == ".parquet":
        pq.write_table(pa.table({"x": lists()}), path)
    else:
        (np.save if ending == ".npy" else np.savez)(path, VALUES)
    contents = [b"", b"not at all", b"PK\x03\x04 broken", b"\x93NUMPY\x09\x00", path.read_bytes()[:-20]]
    if ending == ".npz":  # which alone has checksums
        flipped = bytearray(path.read_bytes())
        flipped[flipped.index(VALUES.tobytes())] ^= 1
        contents.append(bytes(flipped))
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(InvalidFile, match="cannot be read as"):
            read_vectors(path)
