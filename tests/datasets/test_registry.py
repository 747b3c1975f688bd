"""Data sets by name, folder or file."""

from pathlib import Path

import pytest

from surefind.datasets import Splits, open_dataset, read_catalog, read_foreign
from surefind.datasets.registry import READERS, find_reader
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.images.catalog import Catalog


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ("cub20:birds", "did you mean cub200:birds"),
        ("Cars196:x", "did you mean cars196:x"),
        ("os.system:x", "try folder:x"),
        ("imagenet:x", "try folder:x"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(source, fix):
    with pytest.raises(InvalidArgument, match="one of cub200, cars196, msls") as caught:
        open_dataset(source)
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ("cub200", "did you mean cub200:FOLDER?"),
        ("msls:", "msls:FOLDER"),
        ("glyph", "did you mean glyphs?"),
        ("/no/where", "check the path"),
        ("./no:where", "check the path"),
        ("C:\\images", "check the path"),
    ],
)
def test_a_missing_place_says_what_to_write(source, fix):
    with pytest.raises(InvalidFile, match="no such file or folder") as caught:
        read_catalog(source)
    assert fix in caught.value.fix


def test_a_file_of_another_kind_is_refused(write_tree):
    with pytest.raises(InvalidFile, match="neither a folder nor a table of images"):
        read_catalog(write_tree("a.zip") / "a.zip")


@pytest.mark.parametrize("name", sorted(set(READERS) - {"glyphs"}))
def test_every_reader_refuses_a_missing_place(name, tmp_path):
    for read in (read_catalog, open_dataset):
        with pytest.raises(InvalidFile):
            read(f"{name}:{tmp_path / 'nowhere'}")


def test_the_name_glyphs_means_the_built_in_data_and_a_path_a_folder(write_tree, monkeypatch):
    monkeypatch.chdir(write_tree("glyphs/a/1.jpg"))
    assert find_reader("glyphs")[0] == "glyphs"
    assert find_reader("./glyphs")[0] == "folder"
    assert find_reader(Path("glyphs"))[0] == "folder"


def test_splits_refuse_an_image_in_two_parts():
    part = Catalog(Path(), ("1.jpg", "2.jpg"))
    with pytest.raises(SurefindError, match="image '2.jpg' is in both train and val"):
        Splits("x", train=part, val=part.select([1]), test=part.select([]))


def test_splits_refuse_a_class_that_is_also_foreign():
    test, foreign = (Catalog(Path(root), ("1.jpg",), labels=("a",)) for root in ("", "other"))
    with pytest.raises(SurefindError, match="class 'a' is in both test and foreign"):
        Splits("x", train=test.select([]), val=test.select([]), test=test, foreign=foreign)


@pytest.mark.parametrize(
    ("paths", "taken"),
    [
        (["a/1.jpg", "b/1.jpg", "c/1.jpg", "d/1.jpg"], "abcd"),  # it could be halved, but says not
        (["1.jpg", "2.jpg"], ""),
        (["train/a/1.jpg", "train/b/1.jpg", "train/b/2.jpg", *(f"test/{x}.jpg" for x in
          ("c/1", "c/2", "d/1"))], "cd"),
    ],
)  # fmt: skip
def test_of_a_foreign_folder_all_is_taken_unless_it_names_a_test_split(write_tree, paths, taken):
    catalog = read_foreign(write_tree(*paths))
    assert "".join(catalog.classes) == taken
    assert len(catalog) == sum(not path.startswith("train/") for path in paths)


def test_of_a_foreign_table_the_test_split_is_taken(write_table):
    rows = ["1.jpg,a,train", "2.jpg,a,train", "3.jpg,b,train", "4.jpg,c,test", "5.jpg,c,test", "6.jpg,d,test"]
    assert read_foreign(write_table("\n".join(["path,label,split", *rows]))).classes == ("c", "d")
    strange = write_table("path,label,split\n1.jpg,,foreign\n2.jpg,,foreign", "foreign.csv")
    assert len(read_foreign(strange)) == 2
