"""Mapillary Street-Level Sequences, in its published layout."""

import csv
from pathlib import Path

import pytest

from surefind.datasets import open_dataset, read_catalog, read_foreign
from surefind.datasets.msls import TEST_CITIES, TRAIN_CITIES
from surefind.errors import InvalidFile, SurefindError

# key, view, night, control panel, panorama
IMAGES = [
    ("plain", "Forward", False, False, False),
    ("back", "Backward", False, False, False),
    ("side", "Sideways", False, False, False),
    ("dark", "Forward", True, False, False),
    ("dash", "Forward", False, True, False),
    ("round", "Forward", False, False, True),
]


def write_city(root: Path, city: str, *, positions: bool = True) -> Path:
    for role in ("query", "database"):
        home = root / ("test" if city in TEST_CITIES else "train_val") / city / role
        (home / "images").mkdir(parents=True)
        keys = [f"{city}-{role}-{key}" for key, *_ in IMAGES]
        if positions:
            header = ["", "key", "easting", "northing", "unique_cluster", "night",
                      "control_panel", "view_direction"]  # fmt: skip
            rows = [
                [row, keys[row], 500_000.0 + row, 4_000_000.0, row, night, panel, view]
                for row, (_, view, night, panel, _) in enumerate(IMAGES)
            ]
            write_csv(home / "postprocessed.csv", header, rows)
            raw = [[row, keys[row], 1.0, 2.0, 90.0, "2020-01-01", pano] for row, (*_, pano) in enumerate(IMAGES)]
            header = ["", "key", "lon", "lat", "ca", "captured_at", "pano"]
            write_csv(home / "raw.csv", header, raw)
    return root


def write_csv(file: Path, header: list, rows: list) -> None:
    with file.open("w", newline="") as text:
        csv.writer(text).writerows([header, *rows])


def kinds(catalog) -> list[str]:
    """Which images a catalog has, of each city and role the same."""
    return sorted({Path(path).stem.split("-")[-1] for path in catalog.paths})


def test_cities_make_the_splits(tmp_path):
    for city in ("london", "tokyo", "cph", "miami"):
        write_city(tmp_path, city)
    splits = open_dataset(tmp_path)
    assert splits.name == "msls"
    assert len(splits.train) == 2 * len(splits.val) == 2 * len(splits.test) == 16
    assert splits.val.paths[0] == "train_val/cph/query/images/cph-query-plain.jpg"
    assert splits.test.paths[-1] == "test/miami/database/images/miami-database-dark.jpg"
    assert splits.train.labels == ()
    assert sum(splits.test.queries) == 4
    assert len(read_catalog(tmp_path)) == 32


def test_two_cities_never_match(tmp_path):
    catalog = read_catalog(write_city(write_city(tmp_path, "london"), "boston"))
    assert catalog.paths[0].startswith("train_val/london/")
    assert catalog.paths[-1].startswith("train_val/boston/")
    assert abs(catalog.positions[0][0] - catalog.positions[-1][0]) > 300_000


def test_panoramas_and_dashboards_are_left_out(tmp_path):
    write_city(tmp_path, "london")
    assert kinds(read_catalog(tmp_path)) == ["back", "dark", "plain", "side"]
    for role in ("query", "database"):
        file = tmp_path / "train_val" / "london" / role / "raw.csv"
        file.write_text(file.read_text().replace("False", "True"))
    with pytest.raises(SurefindError, match="all images are panoramas or dashboards"):
        read_catalog(tmp_path)


def test_published_subsets_count_for_validation_and_test_only(tmp_path):
    for city in ("london", "cph"):
        write_city(tmp_path, city)
        for role in ("query", "database"):
            rows = [[row, row == 0] for row in range(len(IMAGES))]
            file = tmp_path / "train_val" / city / role / "subtask_index.csv"
            write_csv(file, ["", "all"], rows)
    splits = open_dataset(tmp_path, val_share=0)
    assert kinds(splits.test) == ["plain"]
    assert len(kinds(splits.train)) == 4


def test_without_test_cities_the_validation_cities_are_tested(tmp_path):
    for city in ("london", "boston", "manila", "sf"):
        write_city(tmp_path, city)
    splits = open_dataset(f"msls:{tmp_path}")
    assert all("/sf/" in path for path in splits.test.paths)
    assert all("/manila/" in path for path in splits.val.paths)


def test_test_cities_without_positions_say_so(tmp_path):
    for city in ("london", "cph"):
        write_city(tmp_path, city)
    write_city(tmp_path, "miami", positions=False)
    with pytest.raises(InvalidFile, match="positions of these photos are not known") as caught:
        open_dataset(tmp_path)
    assert "public release" in caught.value.fix


@pytest.mark.parametrize(("city", "kind"), [("cph", "training"), ("london", "validation or test")])
def test_nothing_to_train_or_test_on_is_refused(tmp_path, city, kind):
    with pytest.raises(InvalidFile, match=f"none of the {kind} cities"):
        open_dataset(write_city(tmp_path, city))


def test_one_training_city_cannot_be_held_out(tmp_path):
    write_city(write_city(tmp_path, "london"), "miami")
    with pytest.raises(SurefindError, match="one training city and no validation city"):
        open_dataset(tmp_path)
    assert len(open_dataset(tmp_path, val_share=0).val) == 0


def test_a_flag_that_is_neither_true_nor_false_is_refused(tmp_path):
    write_city(tmp_path, "london")
    file = tmp_path / "train_val" / "london" / "query" / "postprocessed.csv"
    file.write_text(file.read_text().replace("False", "perhaps"))
    with pytest.raises(InvalidFile, match="must be true or false, got 'perhaps'"):
        read_catalog(tmp_path)


def test_subsets_of_another_length_are_refused(tmp_path):
    write_city(tmp_path, "cph")
    write_csv(tmp_path / "train_val" / "cph" / "query" / "subtask_index.csv", ["", "all"], [[0, True]])
    with pytest.raises(InvalidFile, match="1 rows for 6 images"):
        read_catalog(tmp_path)


def test_foreign_places_are_of_the_test_cities_where_there_are_others(tmp_path):
    write_city(tmp_path, "cph")
    alone = read_foreign(f"msls:{tmp_path}")
    write_city(tmp_path, TRAIN_CITIES[0])
    write_city(tmp_path, TRAIN_CITIES[1])
    assert {path.split("/")[1] for path in read_foreign(f"msls:{tmp_path}").paths} == {"cph"}
    assert len(alone) > 0
