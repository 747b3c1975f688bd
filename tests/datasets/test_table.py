"""Tables with one image a row."""

from pathlib import Path

import pandas
import pytest

from surefind.datasets import open_dataset, read_catalog
from surefind.errors import InvalidFile, SurefindError


def test_a_table_gives_every_column_of_a_catalog(write_table):
    file = write_table(
        """Path,ID,Label,Role,Difficulty,East,North,unknown
        a/1.jpg,one,cat,query,0.5,10,20,?
        a/2.jpg,two,dog,database,1,11,-20.5,?"""
    )
    catalog = read_catalog(file)
    assert catalog.root == file.parent
    assert catalog.paths == ("a/1.jpg", "a/2.jpg")
    assert catalog.ids == ("one", "two")
    assert catalog.labels == ("cat", "dog")
    assert catalog.queries == (True, False)
    assert catalog.difficulty == (0.5, 1.0)
    assert catalog.positions == ((10.0, 20.0), (11.0, -20.5))


def test_other_columns_are_metadata_with_their_types(write_table):
    catalog = read_catalog(
        write_table(
            """path,label,price,stock,code,sold,note
            1.jpg,a,1.5,3,007,true,
            2.jpg,b,2,-4,010,False,x"""
        )
    )
    first, second = catalog.metadata
    assert first | {"path": ""} == {
        "path": "", "label": "a", "price": 1.5, "stock": 3, "code": "007", "sold": True
    }  # fmt: skip
    assert (second["price"], second["stock"], second["sold"]) == (2.0, -4, False)
    assert catalog.select([1]).metadata == (second,)


def test_a_table_in_memory_reads_like_a_file(write_tree):
    root = write_tree("a/1.jpg", "b/2.jpg")
    paths = [str(root / "a" / "1.jpg"), str(root / "b" / "2.jpg")]
    frame = pandas.DataFrame({"path": paths, "label": ["a", "b"], "price": [1.5, None]})
    catalog = read_catalog(frame)
    assert catalog.files == [*map(Path, paths)] and catalog.ids == tuple(paths)
    assert catalog.labels == ("a", "b") and catalog.extra == ({"price": 1.5}, {})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"file": ["1.jpg"]}, "no column 'path', only file"),
        ({"path": ["1.jpg", None]}, "row 1: path must be a file, got ''"),
        ({"path": []}, "expected a table with rows"),
    ],
)
def test_a_bad_table_in_memory_names_its_row(columns, message):
    with pytest.raises(SurefindError, match=message):
        read_catalog(pandas.DataFrame(columns))


def test_a_table_of_paths_alone_can_be_read_but_not_split(write_table):
    file = write_table("path\n1.jpg\n2.jpg")
    assert len(read_catalog(f"csv:{file}")) == 2
    with pytest.raises(SurefindError, match="neither classes nor positions"):
        open_dataset(file)


def test_the_split_column_is_honoured(write_table):
    splits = open_dataset(
        write_table(
            """path,label,split
            1.jpg,a,train
            2.jpg,a,train
            3.jpg,b,train
            4.jpg,c,val
            5.jpg,d,test
            6.jpg,d,test
            7.jpg,e,test
            8.jpg,,foreign"""
        )
    )
    assert splits.name == "list"
    assert splits.train.paths == ("1.jpg", "2.jpg", "3.jpg")
    assert splits.val.paths == ("4.jpg",)
    assert splits.test.paths == ("5.jpg", "6.jpg", "7.jpg")
    assert splits.foreign is not None and splits.foreign.labels == ("8.jpg",)


def test_quoted_values_blank_lines_and_a_byte_order_mark_are_read(write_tree):
    root = write_tree("a, b.jpg", "c.jpg")
    text = '\ufeffpath,label\n"a, b.jpg","first, class"\n\nc.jpg,x\n'
    (root / "list.csv").write_text(text, encoding="utf-8")
    catalog = read_catalog(root / "list.csv")
    assert catalog.paths == ("a, b.jpg", "c.jpg")
    assert catalog.labels == ("first, class", "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,label\n1.jpg,a", "no column 'path', only file, label"),
        ("paths,label\n1.jpg,a", "no column 'path'.*\n.*rename 'paths' to 'path'"),
        ("path,label", "no rows"),
        ("path,label\n1.jpg,a,b", "line 2: 3 values under 2 column names"),
        ("path,label\n1.jpg,a\n2.jpg,", "line 3: label must be the name of a class, got ''"),
        ("path\n1.jpg\n/etc/2.jpg", "line 3: path must be a file below the table's folder"),
        ("path\n1.jpg\n../2.jpg", "line 3: path must be a file below the table's folder"),
        ("path\n1.jpg\n2.jpg\n1.jpg", "line 4: path must be another than that of line 2"),
        ("path,id\n1.jpg,x\n2.jpg,x", "line 3: id must be another than that of line 2"),
        ("path,id\n1.jpg,", "line 2: id must be a name"),
        ("path,split\n1.jpg,training", "line 2: split must be train or val or test or foreign"),
        ("path,role\n1.jpg,asks", "line 2: role must be query or database, got 'asks'"),
        ("path,role\n1.jpg,", "line 2: role must be query or database, got ''"),
        ("path,difficulty\n1.jpg,2", "line 2: difficulty must be a number from 0 to 1, got '2'"),
        ("path,lat,lon\n1.jpg,91,0", "line 2: lat must be a number from -90 to 90, got '91'"),
        ("path,lat,lon\n1.jpg,x,0", "line 2: lat must be a number from -90 to 90, got 'x'"),
        ("path,lat\n1.jpg,5", "no column 'lon'"),
        ("path,east,north\n1.jpg,nan,5", "line 2: east must be a number"),
        ("path,east\n1.jpg,5", "no column 'north'"),
    ],
)
def test_a_bad_table_names_its_line(write_table, text, message):
    with pytest.raises(InvalidFile, match=message):
        read_catalog(write_table(text))


def test_a_split_without_test_images_is_refused(write_table):
    text = "path,label,split\n1.jpg,a,train\n2.jpg,a,train\n3.jpg,b,train"
    with pytest.raises(SurefindError, match="in the split 'test'"):
        open_dataset(write_table(text))


def test_a_table_far_from_its_images_says_so(write_tree):
    root = write_tree("1.jpg")
    (root / "elsewhere").mkdir()
    (root / "elsewhere" / "list.csv").write_text("path\n1.jpg\n")
    with pytest.raises(InvalidFile, match="none of its first images exists, such as '1.jpg'"):
        read_catalog(root / "elsewhere" / "list.csv")


def test_a_file_that_is_no_text_says_so(write_tree):
    root = write_tree()
    (root / "list.csv").write_bytes(b"path\n\xff\xfe\x00")
    with pytest.raises(InvalidFile, match="cannot be read as CSV"):
        read_catalog(root / "list.csv")


def test_parquet_without_pyarrow_names_the_package(write_tree, monkeypatch):
    root = write_tree("list.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(SurefindError, match="surefind\\[parquet\\]"):
        read_catalog(root / "list.parquet")


def test_a_parquet_file_reads_like_a_csv(write_tree):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    root = write_tree("1.jpg", "2.jpg")
    columns = {"path": ["1.jpg", "2.jpg"], "label": ["a", "b"], "difficulty": [0.0, 0.5]}
    parquet.write_table(pyarrow.table(columns), root / "list.parquet")
    catalog = read_catalog(root / "list.parquet")
    assert catalog.labels == ("a", "b") and catalog.difficulty == (0.0, 0.5)


def test_a_broken_parquet_file_says_so(write_tree):
    pytest.importorskip("pyarrow")
    with pytest.raises(InvalidFile, match="cannot be read as Parquet"):
        read_catalog(write_tree("list.parquet") / "list.parquet")
