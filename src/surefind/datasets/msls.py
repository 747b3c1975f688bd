"""Mapillary Street-Level Sequences: photos of places in 30 cities.

    train_val/<city>/{query,database}/  images/<key>.jpg, raw.csv, postprocessed.csv
    test/<city>/{query,database}/       the same; the public release has no positions here

Cities are those of the official split; other folders are not read. For validation and test cities,
`subtask_index.csv`, if present, lists the images of the published benchmark.
"""

from itertools import product
from pathlib import Path

from surefind.datasets.splits import Listing, Splits
from surefind.datasets.table import Table, read_table
from surefind.errors import InvalidFile, SurefindError
from surefind.images.catalog import Catalog

TRAIN_CITIES = (
    "trondheim", "london", "boston", "melbourne", "amsterdam", "helsinki", "tokyo", "toronto",
    "saopaulo", "moscow", "zurich", "paris", "bangkok", "budapest", "austin", "berlin", "ottawa",
    "phoenix", "goa", "amman", "nairobi", "manila",
)  # fmt: skip
VAL_CITIES = ("cph", "sf")
TEST_CITIES = ("miami", "athens", "buenosaires", "stockholm", "bengaluru", "kampala")
CITIES = (*TRAIN_CITIES, *VAL_CITIES, *TEST_CITIES)
# UTM eastings are below 1,000 km: this keeps cities apart.
BETWEEN_CITIES_M = 1_000_000.0


def is_msls(folder: Path) -> bool:
    return bool(_present(folder, CITIES))


def read_msls(folder: Path) -> Listing:
    """List all images of the cities in the folder."""
    return _read_cities(folder, _require(folder, CITIES, "official"))


def split_msls(folder: Path, *, val_share: float) -> Splits:
    """Split by the official cities, as far as they are present.

    Without test cities, the validation cities are the test split; without a validation split, it
    is a share of the training cities. With a share of 0, validation cities are trained on.
    """
    train = _require(folder, TRAIN_CITIES, "training")
    val, test = _present(folder, VAL_CITIES), _present(folder, TEST_CITIES)
    if not test:
        val, test = (), _require(folder, (*VAL_CITIES, *TEST_CITIES), "validation or test")
    if val_share == 0:
        train, val = (*train, *val), ()
    elif not val:
        held = max(1, round(val_share * len(train)))
        train, val = train[:-held], train[-held:]
    if not train:
        raise SurefindError(f"{folder}: one training city and no validation city", fix="use val_share=0")
    catalogs = (_read_cities(folder, cities).catalog for cities in (train, val, test))
    return Splits("msls", *catalogs)


def _present(folder: Path, cities: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(city for city in cities if (_home(folder, city) / "database").is_dir())


def _require(folder: Path, cities: tuple[str, ...], kind: str) -> tuple[str, ...]:
    found = _present(folder, cities)
    if not found:
        raise InvalidFile(
            f"{folder}: none of the {kind} cities, such as {_home(Path(), cities[0])}/database",
            fix="unpack images and metadata of MSLS into one folder",
        )
    return found


def _home(folder: Path, city: str) -> Path:
    return folder / ("test" if city in TEST_CITIES else "train_val") / city


def _read_cities(folder: Path, cities: tuple[str, ...]) -> Listing:
    paths: list[str] = []
    positions: list[tuple[float, float]] = []
    queries: list[bool] = []
    splits: list[str] = []
    for city, role in product(cities, ("query", "database")):
        home = _home(folder, city) / role
        file = home / "postprocessed.csv"
        if not file.is_file():
            raise InvalidFile(
                f"{file}: missing: the positions of these photos are not known",
                fix="the public release has none for the test cities: without the folder test/, "
                "the validation cities are tested on instead",
            )
        table = read_table(file)
        east, north = (table.numbers(axis, low=0, high=1e7) for axis in ("easting", "northing"))
        shift = CITIES.index(city) * BETWEEN_CITIES_M
        keys = table.text("key")
        below = home.relative_to(folder).as_posix()
        for row in _usual_rows(table, home, is_training=city in TRAIN_CITIES):
            paths.append(f"{below}/images/{keys[row]}.jpg")
            positions.append((east[row] + shift, north[row]))
            queries.append(role == "query")
            splits.append("train" if city in TRAIN_CITIES else "test")
    if cities and not paths:
        raise SurefindError(f"{folder}: {', '.join(cities)}: all images are panoramas or dashboards")
    catalog = Catalog(folder, tuple(paths), positions=tuple(positions), queries=tuple(queries))
    return Listing("msls", catalog, tuple(splits))


def _usual_rows(table: Table, home: Path, *, is_training: bool) -> list[int]:
    """Rows of all images but panoramas and photos of the dashboard."""
    raw = read_table(home / "raw.csv")
    pano = dict(zip(raw.text("key"), raw.truths("pano"), strict=True))
    panel = table.truths("control_panel")
    listed = [True] * len(table.lines)
    subtask = home / "subtask_index.csv"
    if not is_training and subtask.is_file():
        listed = read_table(subtask).truths("all")
        if len(listed) != len(table.lines):
            raise InvalidFile(f"{subtask}: {len(listed)} rows for {len(table.lines)} images")
    return [
        row for row, key in enumerate(table.text("key")) if listed[row] and not pano.get(key, False) and not panel[row]
    ]
