"""Tiny stand-ins of published data sets, in the layout they are published in."""

import csv
from pathlib import Path

import numpy as np
from documents_pictures import draw_class
from scipy.io import savemat

PER_CLASS = 4


def write_birds(folder: Path) -> Path:
    """CUB-200-2011: some classes of either half."""
    images, labels, names = [], [], []
    for number in (*range(1, 9), *range(101, 107)):
        name = f"{number:03d}.Bird_{number}"
        names.append(f"{number} {name}")
        for picture in range(PER_CLASS):
            images.append(f"{len(images) + 1} {name}/{picture}.jpg")
            labels.append(f"{len(images)} {number}")
            _draw(folder / "images" / name / f"{picture}.jpg", number, seed=len(images))
    for file, lines in (("images", images), ("image_class_labels", labels), ("classes", names)):
        (folder / f"{file}.txt").write_text("\n".join(lines) + "\n")
    return folder


def write_cars(folder: Path) -> Path:
    """Cars-196 with the combined annotations."""
    rows = []
    for number in (*range(1, 9), *range(99, 105)):
        for _ in range(PER_CLASS):
            path = f"car_ims/{len(rows) + 1:06d}.jpg"
            rows.append((number, path))
            _draw(folder / path, number, seed=len(rows))
    fields = [("class", object), ("relative_im_path", object)]
    savemat(
        folder / "cars_annos.mat",
        {
            "annotations": np.array(rows, dtype=fields).reshape(1, -1),
            "class_names": np.array([f"Car {n}" for n in range(1, 197)], object).reshape(1, -1),
        },
    )
    return folder


def write_streets(folder: Path) -> Path:
    """MSLS: two cities to train on, the two to validate on."""
    for first, city in enumerate(("trondheim", "london", "cph", "sf")):
        for role, pictures in (("query", 1), ("database", 3)):
            home = folder / "train_val" / city / role
            places = [(place, picture) for place in range(6) for picture in range(pictures)]
            keys = [f"{city}-{role}-{place}-{picture}" for place, picture in places]
            for row, (place, _) in enumerate(places):
                seed = 1000 * first + 100 * pictures + row
                _draw(home / "images" / f"{keys[row]}.jpg", 10 * first + place, seed=seed)
            _write_tables(home, keys, places)
    return folder


def _write_tables(home: Path, keys: list[str], places: list[tuple[int, int]]) -> None:
    where = [
        [row, key, 500_000 + 500 * place + 3 * picture, 4_000_000, False, False, "Forward"]
        for row, (key, (place, picture)) in enumerate(zip(keys, places, strict=True))
    ]
    head = ["", "key", "easting", "northing", "night", "control_panel", "view_direction"]
    _write_csv(home / "postprocessed.csv", [head, *where])
    raw = [[row, key, False] for row, key in enumerate(keys)]
    _write_csv(home / "raw.csv", [["", "key", "pano"], *raw])


def _write_csv(file: Path, rows: list[list[object]]) -> None:
    with file.open("w", newline="") as text:
        csv.writer(text).writerows(rows)


def _draw(file: Path, number: int, *, seed: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draw_class(number, seed=seed, noise=30).save(file, quality=95)
