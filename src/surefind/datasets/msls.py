"""Mapillary Street-Level Sequences: photos of places in 30 cities.

    train_val/<city>/{query,database}/  images/<key>.jpg, raw.csv, postprocessed.csv
    test/<city>/{query,database}/       the same; the public release has no positions here

Cities are those of the official split; other folders are not read. For validation and test cities
`subtask_index.csv`, where present, names the images that published figures are computed on.
"""

from pathlib import Path
from typing import NamedTuple

from surefind.datasets.splits import HoldOut, Splits
from surefind.datasets.table import Table, read_table
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.images.catalog import Catalog

TRAIN_CITIES = (
    "trondheim", "london", "boston", "melbourne", "amsterdam", "helsinki", "tokyo", "toronto",
    "saopaulo", "moscow", "zurich", "paris", "bangkok", "budapest", "austin", "berlin", "ottawa",
    "phoenix", "goa", "amman", "nairobi", "manila",
)  # fmt: skip
VAL_CITIES = ("cph", "sf")
TEST_CITIES = ("miami", "athens", "buenosaires", "stockholm", "bengaluru", "kampala")
CITIES = (*TRAIN_CITIES, *VAL_CITIES, *TEST_CITIES)
VIEWS = ("Forward", "Backward", "Sideways")
# An easting of UTM is below 1,000 km, so that this keeps the cities more than 300 km apart.
BETWEEN_CITIES_M = 1_000_000.0


class Wanted(NamedTuple):
    """Which images are taken; panoramas never are."""

    include_night: bool = True
    include_control_panel: bool = False  # photos that show the car's dashboard
    views: tuple[str, ...] = VIEWS


USUAL = Wanted()


def is_msls(folder: Path) -> bool:
    return bool(_present(folder, CITIES))


def msls_catalog(folder: Path, *, wanted: Wanted = USUAL) -> Catalog:
    """All images of the cities that are there."""
    return _read_cities(folder, _require(folder, CITIES, "official"), wanted)


def msls_has_splits(folder: Path) -> bool:
    others = (*VAL_CITIES, *TEST_CITIES)
    return bool(_present(folder, TRAIN_CITIES) and _present(folder, others))


def msls_splits(folder: Path, *, hold_out: HoldOut, wanted: Wanted = USUAL) -> Splits:
    """The official cities, as far as they are there.

    Without any test city, the validation cities are the test part; without a validation part,
    the last of the training cities, as many as `hold_out` asks for, are it. Where it asks for
    none, the validation cities are trained on.
    """
    train = _require(folder, TRAIN_CITIES, "training")
    val, test = _present(folder, VAL_CITIES), _present(folder, TEST_CITIES)
    if not test:
        val, test = (), _require(folder, (*VAL_CITIES, *TEST_CITIES), "validation or test")
    if hold_out.share == 0:
        train, val = (*train, *val), ()
    elif not val:
        held = max(1, round(hold_out.share * len(train)))
        train, val = train[:-held], train[-held:]
    if not train:
        raise SurefindError(
            f"{folder}: one training city and no validation city",
            fix="add cities, or hold nothing out (val_share=0)",
        )
    train_catalog, val_catalog, test_catalog = (
        _read_cities(folder, cities, wanted) for cities in (train, val, test)
    )
    return Splits("msls", train=train_catalog, val=val_catalog, test=test_catalog)


def _present(folder: Path, cities: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(city for city in cities if (_home(folder, city) / "database").is_dir())


def _require(folder: Path, cities: tuple[str, ...], kind: str) -> tuple[str, ...]:
    found = _present(folder, cities)
    if not found:
        raise InvalidFile(
            f"{folder}: none of the {kind} cities, such as {_home(Path(), cities[0])}/database",
            fix="unpack images and metadata of MSLS into one folder, and name that folder",
        )
    return found


def _home(folder: Path, city: str) -> Path:
    return folder / ("test" if city in TEST_CITIES else "train_val") / city


def _read_cities(folder: Path, cities: tuple[str, ...], wanted: Wanted) -> Catalog:
    unknown = set(wanted.views) - set(VIEWS)
    if unknown or not wanted.views:
        raise InvalidArgument(
            "views",
            expected=f"some of {', '.join(VIEWS)}",
            got=repr(wanted.views),
            fix="leave it out to take every direction",
        )
    paths: list[str] = []
    positions: list[tuple[float, float]] = []
    queries: list[bool] = []
    for city in cities:
        for role in ("query", "database"):
            home = _home(folder, city) / role
            table = _positions_table(home)
            east, north = (table.numbers(axis, low=0, high=1e7) for axis in ("easting", "northing"))
            shift = CITIES.index(city) * BETWEEN_CITIES_M
            keys = table.text("key")
            below = home.relative_to(folder).as_posix()
            for row in _rows(table, home, wanted, is_training=city in TRAIN_CITIES):
                paths.append(f"{below}/images/{keys[row]}.jpg")
                positions.append((east[row] + shift, north[row]))
                queries.append(role == "query")
    if cities and not paths:
        raise SurefindError(
            f"{folder}: no image of {', '.join(cities)} is of the wanted kind",
            fix="ask for more views, or for night images too",
        )
    return Catalog(folder, tuple(paths), positions=tuple(positions), queries=tuple(queries))


def _positions_table(home: Path) -> Table:
    file = home / "postprocessed.csv"
    if file.is_file():
        return read_table(file)
    raise InvalidFile(
        f"{file}: missing, so that nothing says where these photos were taken",
        fix="add the metadata; the public release has none for the test cities: without their "
        "folder, test/, the validation cities are tested on instead",
    )


def _rows(table: Table, home: Path, wanted: Wanted, *, is_training: bool) -> list[int]:
    """Rows of the images that are wanted."""
    raw = read_table(home / "raw.csv")
    pano = dict(zip(raw.text("key"), raw.truths("pano"), strict=True))
    night, panel = table.truths("night"), table.truths("control_panel")
    views = table.text("view_direction")
    listed = [True] * len(table)
    subtask = home / "subtask_index.csv"
    if not is_training and subtask.is_file():
        listed = read_table(subtask).truths("all")
        if len(listed) != len(table):
            raise InvalidFile(
                f"{subtask}: {len(listed)} rows for {len(table)} images",
                fix="unpack the metadata again",
            )
    return [
        row
        for row, key in enumerate(table.text("key"))
        if listed[row]
        and not pano.get(key, False)
        and (wanted.include_control_panel or not panel[row])
        and (wanted.include_night or not night[row])
        and views[row] in wanted.views
    ]
