"""Photos with latitude and longitude."""

import numpy as np
import pytest

from surefind.datasets import open_dataset, read_catalog
from surefind.datasets.projection import project, transverse_mercator
from surefind.errors import InvalidFile, SurefindError

METRE_NORTH = 1 / 111_250  # degrees of latitude at 52 degrees north


def street(count: int = 200, step_m: float = 10.0) -> list[str]:
    """A street to the north, with every fourth photo a query."""
    return [
        f"{row:03d}.jpg,{'query' if row % 4 == 0 else 'database'},"
        f"{52 + row * step_m * METRE_NORTH:.7f},13.28,90.0,key{row}"
        for row in range(count)
    ]


def table(rows: list[str], header: str = "path,role,lat,lon,compass_deg,mapillary_key") -> str:
    return "\n".join([header, *rows])


def nearest(one, other) -> float:
    apart = np.array(one.positions)[:, None] - np.array(other.positions)[None]
    return float(np.hypot(*np.moveaxis(apart, -1, 0)).min())


def test_places_are_split_into_areas_more_than_100_m_apart(write_table):
    splits = open_dataset(f"places:{write_table(table(street()))}", val_share=0.2)
    parts = [splits.train, splits.val, splits.test]
    for place, one in enumerate(parts):
        assert 0 < sum(one.queries) < len(one)
        for other in parts[place + 1 :]:
            assert nearest(one, other) > 100
    assert 80 <= len(splits.test) <= 100
    assert 0.15 < len(splits.val) / (len(splits.val) + len(splits.train)) < 0.25


def test_a_table_of_positions_is_known_without_its_name(write_table):
    splits = open_dataset(write_table(table(street())))
    assert len(splits.train) and len(splits.test)


def test_a_gap_between_places_costs_no_image(write_table):
    rows = street(200)
    del rows[98:112]
    splits = open_dataset(write_table(table(rows)), val_share=0)
    assert len(splits.train) + len(splits.test) == len(rows)


def test_a_given_split_of_places_is_honoured(write_table):
    rows = [f"{row}.jpg,{row},0,{'test' if row > 90 else 'train'}" for row in range(100)]
    file = write_table(table(rows, "path,east,north,split"))
    splits = open_dataset(f"places:{file}", val_share=0)
    assert len(splits.train) == 91 and len(splits.test) == 9 and len(splits.val) == 0


def test_places_too_close_together_are_refused(write_table):
    with pytest.raises(SurefindError, match="too close together") as caught:
        open_dataset(write_table(table(street(step_m=0.1))))
    assert "`split`" in caught.value.fix


def test_a_training_area_too_small_for_a_strip_has_no_validation_part(write_table):
    splits = open_dataset(write_table(table(street(40))), val_share=0.1)
    assert len(splits.val) == 0 and len(splits.train) > 0


def test_places_without_positions_are_refused(write_table):
    with pytest.raises(InvalidFile, match="no positions"):
        open_dataset(f"places:{write_table('path,label' + chr(10) + '1.jpg,a')}")


def test_places_match_by_distance_whatever_their_labels(write_table):
    file = write_table("path,label,latitude,longitude\n1.jpg,a,1,2\n2.jpg,b,1,2")
    assert read_catalog(f"places:{file}").labels == ()
    assert read_catalog(file).labels == ("a", "b")


def test_the_projection_is_that_of_utm():
    # The CN Tower is at 630084 E, 4833438 N of zone 17, whose central meridian is 81 W.
    lat, lon = 43 + 38 / 60 + 33.24 / 3600, -(79 + 23 / 60 + 13.7 / 3600)
    metres = transverse_mercator(np.array([lat]), np.array([lon + 81]))[0]
    east, north = 0.9996 * metres + [500_000, 0]
    assert east == pytest.approx(630_084, abs=1) and north == pytest.approx(4_833_438, abs=1)


def ellipsoid_points(lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
    """Points in space: the chord between near points is their distance."""
    phi, away, e2 = np.deg2rad(lat), np.deg2rad(lon), 0.00669437999014
    radius = 6_378_137 / np.sqrt(1 - e2 * np.sin(phi) ** 2)
    return np.stack([
        radius * np.cos(phi) * np.cos(away),
        radius * np.cos(phi) * np.sin(away),
        radius * (1 - e2) * np.sin(phi),
    ], axis=1)  # fmt: skip


@pytest.mark.parametrize("width", [0.1, 5.9, 300.0])
@pytest.mark.parametrize("lat", [-45.0, 0.0, 60.0])
def test_near_distances_are_true_however_wide_the_data(lat, width):
    random = np.random.default_rng(0)
    lats = lat + random.uniform(-1, 1, 500)
    # Away from the borders of zones, where near points of wide data fall apart on purpose.
    lons = -147.9 + np.floor(random.uniform(0, width, 500) / 6) * 6
    lons += random.uniform(0, min(width, 5.8), 500)
    near = lats + 1e-4, lons + 1e-4
    both = project(np.concatenate([lats, near[0]]), np.concatenate([lons, near[1]]))
    measured = np.linalg.norm(both[:500] - both[500:], axis=1)
    true = np.linalg.norm(ellipsoid_points(lats, lons) - ellipsoid_points(*near), axis=1)
    np.testing.assert_allclose(measured, true, rtol=1.9e-3)


def test_two_tables_of_one_city_have_one_plane():
    lat, lon = np.array([52.51, 52.52, 52.53]), np.array([13.37, 13.40, 13.43])
    np.testing.assert_allclose(project(lat, lon)[:2], project(lat[:2], lon[:2]), rtol=0, atol=1e-6)


def test_places_across_the_date_line_are_near():
    metres = project(np.array([0.0, 0.0]), np.array([179.9999, -179.9999]))
    assert np.linalg.norm(metres[0] - metres[1]) == pytest.approx(22.26, abs=0.01)
