"""No request opens a file outside the index and its images, or a connection."""

from pathlib import Path

import numpy as np
import pytest
from calibrations import make_calibrated_index
from PIL import Image
from watching import PATHS, SECRET, Audit, outside, watched


@pytest.fixture(scope="module")
def place(model, tmp_path_factory) -> Path:
    """An index, a secret beside its images, and a link to the secret among them."""
    folder = make_calibrated_index(tmp_path_factory.mktemp("watched"), model)
    pixels = np.random.default_rng(7).integers(0, 255, (20, 20, 3), np.uint8)
    Image.fromarray(pixels).save(folder / SECRET)
    (folder / "photos" / "class00" / "linked.png").symlink_to(folder / SECRET)
    return folder


@pytest.fixture(scope="module")
def seen(place) -> Audit:
    found, strangers = watched(place)
    assert strangers == 0, "somebody connected to a URL of a request"
    return found


def test_no_outside_file_connection_or_process_is_opened(seen, place):
    assert outside(seen.opened, place) == []
    assert str(place / "photos" / "class00" / "0.png") in seen.opened  # the watch does see
    assert seen.leaks == []  # no answer holds what is outside
    assert seen.connected == set() and seen.started == set()


@pytest.mark.parametrize("route", [*PATHS, *(f"{path} by name" for path in PATHS[:3])])
def test_a_path_traversal_is_not_found(seen, route):
    refused = {404, 400, 422}
    assert set(seen.statuses[route]) <= refused and seen.statuses[route][404] > 0


def test_paths_and_urls_in_requests_cause_no_internal_error(seen):
    every = {status for counted in seen.statuses.values() for status in counted}
    assert None not in every and max(every) < 500


def test_only_images_inside_the_folder_are_shown(seen):
    assert seen.statuses["thumbnail of 0.png"] == {200: 1}
    for name in ("linked.png", "passwd", SECRET):
        assert set(seen.statuses[f"thumbnail of {name}"]) == {404}
