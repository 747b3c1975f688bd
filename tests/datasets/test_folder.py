"""Folders of class folders."""

import pytest

from surefind.datasets import open_dataset, read_catalog
from surefind.errors import SurefindError


def classes_of(*names: str, images: int = 2) -> list[str]:
    return [f"{name}/{number}.jpg" for name in names for number in range(images)]


def test_the_first_half_of_the_classes_trains_and_the_last_half_tests(write_tree):
    root = write_tree(*classes_of("d", "b", "a", "c"))
    splits = open_dataset(root)
    assert splits.name == "data"
    assert splits.train.classes == ("a", "b")
    assert splits.test.classes == ("c", "d")
    assert len(splits.val) == 0  # too few classes to hold any out
    assert splits.foreign is None


def test_whole_classes_are_held_out_to_validate_on(write_tree):
    root = write_tree(*classes_of(*(f"{number:02d}" for number in range(60)), images=3))
    splits = open_dataset(root, val_share=0.2)
    assert len(splits.val.classes) == 6 and len(splits.val) == 18
    assert len(splits.train.classes) == 24
    held = splits.val.classes
    assert held == open_dataset(root, val_share=0.2).val.classes
    assert held != open_dataset(root, val_share=0.2, seed=1).val.classes
    assert len(open_dataset(root, val_share=0).val) == 0


def test_classes_of_one_image_are_kept_but_not_held_out(write_tree):
    pairs = classes_of("a", "b", "c", "d", "w", "x")
    splits = open_dataset(write_tree(*pairs, *classes_of("e", "f", "y", "z", images=1)))
    assert {"e"} <= set(splits.train.classes)
    assert set(splits.val.classes) < {"a", "b", "c", "d"}


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_validation_share_outside_its_range_is_refused(write_tree, share):
    with pytest.raises(SurefindError, match="val_share: expected a share from 0 to below 1"):
        open_dataset(write_tree(*classes_of("a", "b")), val_share=share)


def test_images_are_found_by_suffix_at_any_depth_in_order(write_tree):
    root = write_tree(
        "b/x.PNG", "a/deep/er/y.jpeg", "a/1.jpg", "a/notes.txt", "a/.hidden.jpg", ".git/z.jpg",
        "b/u.WebP", "b/v.tif", "b/w.bmp", "b/t.tiff", "b/s.gif",
    )  # fmt: skip
    catalog = read_catalog(root)
    assert catalog.paths == (
        "a/1.jpg", "a/deep/er/y.jpeg",
        "b/s.gif", "b/t.tiff", "b/u.WebP", "b/v.tif", "b/w.bmp", "b/x.PNG",
    )  # fmt: skip
    assert catalog.labels == ("a",) * 2 + ("b",) * 6


def test_links_that_leave_the_folder_are_not_followed(write_tree):
    outside = write_tree("secret/1.jpg", folder="outside")
    root = write_tree("a/1.jpg")
    (root / "a" / "out.jpg").symlink_to(outside / "secret" / "1.jpg")
    (root / "a" / "in.jpg").symlink_to(root / "a" / "1.jpg")
    (root / "a" / "broken.jpg").symlink_to(root / "a" / "gone.jpg")
    (root / "b").symlink_to(outside / "secret")
    (root / "a" / "loop").symlink_to(root)
    assert read_catalog(root).paths == ("a/1.jpg", "a/in.jpg")


def test_a_given_split_is_honoured(write_tree):
    root = write_tree(
        *classes_of("train/a", "train/b", "val/c", "val/d", "test/e", "test/f"), "foreign/x.jpg", "foreign/y.jpg"
    )
    splits = open_dataset(root)
    assert splits.train.classes == ("a", "b")
    assert splits.val.classes == ("c", "d")
    assert splits.test.classes == ("e", "f")
    assert splits.foreign is not None
    assert splits.foreign.labels == ("foreign/x.jpg", "foreign/y.jpg")  # each a class of its own
    assert len(read_catalog(root)) == 14


def test_without_a_test_folder_the_validation_classes_are_tested(write_tree):
    train = (f"train/{letter}" for letter in "abcdef")
    splits = open_dataset(write_tree(*classes_of(*train, "val/x", "val/y")))
    assert splits.test.classes == ("x", "y")
    assert len(splits.val.classes) == 2 and len(splits.train.classes) == 4


def test_a_class_called_train_is_a_class(write_tree):
    splits = open_dataset(write_tree(*classes_of("bus", "car", "test", "train")))
    assert splits.test.classes == ("test", "train")


def test_a_class_on_both_sides_of_a_given_split_is_refused(write_tree):
    root = write_tree(*classes_of("train/a", "train/b", "test/b", "test/c"))
    with pytest.raises(SurefindError, match="class 'b' is in both train and test"):
        open_dataset(root)


def test_images_in_no_class_folder_are_named(write_tree):
    flat = write_tree("1.jpg", "2.jpg", folder="flat")
    assert read_catalog(flat).labels == ()
    with pytest.raises(SurefindError, match="2 of 2 images lie in no class folder"):
        open_dataset(flat)
    root = write_tree(*classes_of("a", "b"), "cover.jpg")
    assert len(read_catalog(root)) == 5
    with pytest.raises(SurefindError, match="1 of 5 images lie in no class folder"):
        open_dataset(root)
    root = write_tree(*classes_of("train/a", "test/b"), "train/cover.jpg", folder="given")
    with pytest.raises(SurefindError, match="1 of 5 .* such as 'train/cover.jpg'"):
        open_dataset(root)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([], "no images"),
        (["a/1.txt"], "no images"),
        (classes_of("a"), "1 class; training needs at least two"),
        (classes_of("a", "b", "c"), "3 classes; training needs at least two"),
        (classes_of(*"abcd", images=1), "training half: no class has two images"),
        ([*classes_of("a", "b"), "c/1.jpg", "d/1.jpg"], "test half: no class has two images"),
        (classes_of("images/a", "images/b"), "one class, 'images'; are the class folders in .*/images"),
        (classes_of("train/a", "test/b", "test/c"), "train: 1 class, but at least two"),
    ],
)
def test_a_folder_that_cannot_be_split_says_why(write_tree, paths, message):
    with pytest.raises(SurefindError, match=message):
        open_dataset(write_tree(*paths))
