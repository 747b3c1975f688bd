"""CUB-200 and Cars-196, in each layout they come in."""

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from surefind.datasets import open_dataset, read_catalog
from surefind.errors import InvalidFile, SurefindError


def write_birds(root: Path, classes: range, images: int = 2) -> Path:
    rows = [(number, image) for number in classes for image in range(images)]
    names = {number: f"{number:03d}.Bird_{number}" for number in classes}
    lines = [f"{row} {names[number]}/{image}.jpg" for row, (number, image) in enumerate(rows, 1)]
    (root / "images.txt").write_text("\n".join(lines))
    labels = [f"{row} {number}" for row, (number, _) in enumerate(rows, 1)]
    (root / "image_class_labels.txt").write_text("\n".join(labels) + "\n")
    (root / "classes.txt").write_text("\n".join(f"{n} {name}" for n, name in names.items()))
    return root


def write_annotations(file: Path, path_field: str, rows: list[tuple[str, int]], **more) -> None:
    """As the devkit has it: a 1 x N struct array, each field a matrix of its own."""
    file.parent.mkdir(exist_ok=True)
    fields = [("bbox_x1", object), ("class", object), (path_field, object)]
    records = np.array([(1, number, path) for path, number in rows], dtype=fields)
    savemat(file, {"annotations": records.reshape(1, -1), **more})


def test_birds_of_2011_train_on_the_first_hundred_classes(tmp_path):
    splits = open_dataset(write_birds(tmp_path, range(1, 201)), val_share=0.1)
    assert splits.name == "cub200"
    assert len(splits.val.classes) == 10 and len(splits.train.classes) == 90
    training = {*splits.train.classes, *splits.val.classes}
    assert max(training) == "100.Bird_100"
    assert splits.test.classes[0] == "101.Bird_101" and len(splits.test) == 200
    assert splits.test.paths[0] == "images/101.Bird_101/0.jpg"


def test_birds_without_class_names_are_labelled_by_number(tmp_path):
    write_birds(tmp_path, range(99, 103))
    (tmp_path / "classes.txt").unlink()
    assert read_catalog(tmp_path).classes == ("099", "100", "101", "102")


@pytest.mark.parametrize("inner", ["", "images/"])
def test_numbered_class_folders_split_by_number(write_tree, inner):
    names = ("002.B", "100.C", "101.D", "200.E")
    root = write_tree(*(f"{inner}{name}/{image}.jpg" for name in names for image in range(2)))
    splits = open_dataset(f"cub200:{root}")
    assert splits.train.classes == ("002.B", "100.C")
    assert splits.test.classes == ("101.D", "200.E")
    cars = open_dataset(f"cars196:{write_tree(f'{inner}001.A/0.jpg')}")
    assert cars.train.classes == ("001.A", "002.B")


def test_folders_without_numbers_are_refused(write_tree):
    root = write_tree("001.A/1.jpg", "bird/1.jpg")
    with pytest.raises(InvalidFile, match="'bird' is no class folder named by number"):
        read_catalog(f"cub200:{root}")
    with pytest.raises(InvalidFile, match="its images are in no class folder"):
        read_catalog(f"cub200:{write_tree('1.jpg', folder='flat')}")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("images.txt", "1 a.jpg\n1 b.jpg", "line 2: expected a new number and a value"),
        ("images.txt", "1", "line 1: expected a new number and a value, got '1'"),
        ("images.txt", "9999 a.jpg", "in only one of images.txt and image_class_labels.txt"),
        ("images.txt", "1 ../../a.jpg\n2 b.jpg\n3 c.jpg\n4 d.jpg", "expected paths relative to"),
        ("image_class_labels.txt", "1 x\n2 1\n3 1\n4 1", "class 'x' is no number"),
    ],
)
def test_broken_lists_of_birds_are_named(tmp_path, file, text, message):
    write_birds(tmp_path, range(1, 3))
    (tmp_path / file).write_text(text)
    with pytest.raises(SurefindError, match=message):
        read_catalog(tmp_path)


CARS = [(1, "AM General Hummer"), (98, "Eagle Talon"), (99, "FIAT 500"), (196, "smart fortwo")]


def names_of_cars() -> np.ndarray:
    names = np.full((1, 196), "?", dtype=object)
    for number, name in CARS:
        names[0, number - 1] = name
    return names


def test_cars_from_the_combined_annotations(tmp_path):
    rows = [(f"car_ims/{number:03d}{i}.jpg", number) for number, _ in CARS for i in range(2)]
    write_annotations(tmp_path / "cars_annos.mat", "relative_im_path", rows, class_names=names_of_cars())
    splits = open_dataset(tmp_path)
    assert splits.name == "cars196"
    assert splits.train.classes == ("001.AM General Hummer", "098.Eagle Talon")
    assert splits.test.classes == ("099.FIAT 500", "196.smart fortwo")
    assert splits.train.paths[0] == "car_ims/0010.jpg"


@pytest.mark.parametrize("where", [".", "devkit"])
@pytest.mark.parametrize("named", [True, False])
def test_cars_from_the_devkit_use_the_images_of_both_its_parts(tmp_path, where, named):
    rows = [(f"{row:05d}.jpg", number) for row, (number, _) in enumerate(CARS, 1)]
    write_annotations(tmp_path / "devkit" / "cars_train_annos.mat", "fname", rows)
    write_annotations(tmp_path / where / "cars_test_annos_withlabels.mat", "fname", rows)
    if named:
        savemat(tmp_path / "devkit" / "cars_meta.mat", {"class_names": names_of_cars()})
    splits = open_dataset(tmp_path)
    first = ("cars_train/00001.jpg", "cars_train/00002.jpg")
    assert splits.train.paths == (*first, "cars_test/00001.jpg", "cars_test/00002.jpg")
    assert splits.test.classes[0] == ("099.FIAT 500" if named else "099")


def test_one_annotation_is_enough_to_read(tmp_path):
    write_annotations(tmp_path / "cars_annos.mat", "relative_im_path", [("car_ims/1.jpg", 5)],
                      class_names=names_of_cars())  # fmt: skip
    assert read_catalog(tmp_path).paths == ("car_ims/1.jpg",)


def test_cars_of_the_test_half_are_there_to_test_on_alone(write_tree):
    root = write_tree("images/099.A/1.jpg", "images/099.A/2.jpg", "images/196.B/1.jpg")
    splits = open_dataset(f"cars196:{root}")
    assert splits.test.classes == ("099.A", "196.B")
    assert len(splits.train) == len(splits.val) == 0


def test_cars_of_the_training_half_alone_are_refused(write_tree):
    with pytest.raises(SurefindError, match="cars196: no image in the split 'test'"):
        open_dataset(f"cars196:{write_tree('001.A/1.jpg')}")


def test_a_devkit_without_test_labels_is_refused(tmp_path):
    write_annotations(tmp_path / "devkit" / "cars_train_annos.mat", "fname", [("1.jpg", 1)])
    with pytest.raises(InvalidFile, match="no cars_test_annos_withlabels.mat"):
        read_catalog(tmp_path)


@pytest.mark.parametrize(
    ("field", "number", "message"),
    [("fname", 1, "annotations without relative_im_path")]
    + [("relative_im_path", number, f"expected classes from 1 to 196, got {number}") for number in (0, -1, 197)],
)
def test_annotations_of_no_car_are_refused(tmp_path, field, number, message):
    write_annotations(tmp_path / "cars_annos.mat", field, [("1.jpg", number)])
    with pytest.raises(InvalidFile, match=message):
        read_catalog(tmp_path)


def test_a_matlab_file_cut_short_is_refused(tmp_path):
    file = tmp_path / "cars_annos.mat"
    rows = [("car_ims/1.jpg", 1), ("car_ims/2.jpg", 2)]
    write_annotations(file, "relative_im_path", rows, class_names=names_of_cars())
    whole = file.read_bytes()
    for length in range(0, len(whole), 97):
        file.write_bytes(whole[:length])
        with pytest.raises(InvalidFile):
            read_catalog(tmp_path)
