"""Photos with latitude and longitude."""

import numpy as np
import pytest

from surefind.datasets import open_dataset, read_catalog
from surefind.datasets.table import earth_positions
from surefind.errors import InvalidFile, SurefindError
from surefind.images.matches import ByPosition

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
    return float(np.linalg.norm(apart, axis=-1).min())


def test_places_are_split_into_areas_more_than_100_m_apart(write_table):
    splits = open_dataset(f"places:{write_table(table(street()))}", val_share=0.2)
    parts = [splits.train, splits.val, splits.test]
    for place, one in enumerate(parts):
        assert 0 < sum(one.queries) < len(one)
        for other in parts[place + 1 :]:
            assert nearest(one, other) > 100
    assert 80 <= len(splits.test) <= 100
    assert 0.15 < len(splits.val) / (len(splits.val) + len(splits.train)) < 0.25


def test_a_gap_between_places_costs_no_image_and_a_small_area_has_no_validation_part(write_table):
    rows = street(200)
    del rows[98:112]
    splits = open_dataset(write_table(table(rows)), val_share=0)
    assert len(splits.train) + len(splits.test) == len(rows)
    small = open_dataset(write_table(table(street(40))), val_share=0.1)
    assert len(small.val) == 0 and len(small.train) > 0


def test_places_too_close_together_are_refused(write_table):
    with pytest.raises(SurefindError, match="too close together") as caught:
        open_dataset(write_table(table(street(step_m=0.1))))
    assert "`split`" in caught.value.fix


def test_places_without_positions_are_refused(write_table):
    with pytest.raises(InvalidFile, match="no positions"):
        open_dataset(f"places:{write_table('path,label' + chr(10) + '1.jpg,a')}")


def test_places_match_by_distance_whatever_their_labels(write_table):
    file = write_table("path,label,latitude,longitude\n1.jpg,a,1,2\n2.jpg,b,1,2")
    assert read_catalog(f"places:{file}").labels == ()
    assert read_catalog(file).labels == ("a", "b")


def haversine(one: np.ndarray, other: np.ndarray) -> float:
    """Metres on a sphere that has the curvature of WGS 84 at that latitude and direction."""
    (lat1, lon1), (lat2, lon2) = np.deg2rad(one), np.deg2rad(other)
    e2, mean = 0.00669437999014, (lat1 + lat2) / 2
    bent = 1 - e2 * np.sin(mean) ** 2
    across, along = 6_378_137 / bent**0.5, 6_378_137 * (1 - e2) / bent**1.5
    north, east = along * (lat2 - lat1), across * np.cos(mean) * np.sin(lon2 - lon1)
    share = north**2 / (north**2 + east**2)
    radius = 1 / (share / along + (1 - share) / across)
    half = np.sin((lat2 - lat1) / 2) ** 2
    half += np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return 2 * radius * np.arcsin(half**0.5)


@pytest.mark.parametrize("lat", [-45.0, 0.0, 60.0, 89.0])
@pytest.mark.parametrize("lon", [13.3, 180.0, -84.0])
def test_matches_are_those_of_a_haversine_loop(lat, lon):
    random = np.random.default_rng(0)
    metre = np.array([1 / 111_000, 1 / 111_000 / np.cos(np.deg2rad(lat))])
    places = [lat, lon] + random.uniform(-40, 40, (80, 2)) * metre
    matches = ByPosition(earth_positions(*places.T))
    for row, one in enumerate(places):
        apart = {n: haversine(one, other) for n, other in enumerate(places) if n != row}
        assert min(abs(metres - 25) for metres in apart.values()) > 1e-5  # rounding decides nothing
        assert matches.positives(row).tolist() == [n for n, metres in apart.items() if metres <= 25]


def test_two_tables_have_one_space_also_across_the_date_line(write_table):
    files = [write_table(f"path,lat,lon\na.jpg,0,{lon}", f"{lon}.csv") for lon in (179.9999, -179.9999)]
    one, other = (np.array(read_catalog(file).positions[0]) for file in files)
    assert np.linalg.norm(one - other) == pytest.approx(22.26, abs=0.01)
