"""Whatever is asked, nothing but the index and its pictures is opened, and nobody is called."""

import logging
from pathlib import Path

import numpy as np
import pytest
from calibrations import make_calibrated_index
from PIL import Image
from traversals import SECRET, traversals
from watching import PATHS, Neighbourhood, outside, watched


@pytest.fixture(scope="module")
def place(model, tmp_path_factory) -> Path:
    """An index, a secret beside its pictures, and a link to the secret among them."""
    folder = make_calibrated_index(tmp_path_factory.mktemp("watched"), model)
    pixels = np.random.default_rng(7).integers(0, 255, (20, 20, 3), np.uint8)
    Image.fromarray(pixels).save(folder / SECRET)
    (folder / "photos" / "class00" / "linked.png").symlink_to(folder / SECRET)
    return folder


@pytest.fixture(scope="module")
def seen(place) -> Neighbourhood:
    found, strangers = watched(place)
    assert strangers == 0, "somebody connected to a URL of a request"
    logging.getLogger(__name__).info("%d requests: %s", found.requests, found.statuses)
    return found


def test_there_are_many_ways_to_ask_for_what_is_outside():
    assert len(set(traversals("/a/secret.png", "b.png"))) >= 60


def test_no_file_outside_is_opened_nobody_is_called_and_no_process_started(seen, place):
    assert outside(seen.opened, place) == []
    assert str(place / "photos" / "class00" / "0.png") in seen.opened  # the watch does see
    assert seen.leaks == []  # no answer holds what is outside
    assert seen.connected == set() and seen.started == set()


@pytest.mark.parametrize("route", [*PATHS, *(f"{path} by name" for path in PATHS[:3])])
def test_a_path_that_leads_outside_is_not_found(seen, route):
    refused = {404, 400, 422}
    assert set(seen.statuses[route]) <= refused and seen.statuses[route][404] > 0


def test_no_question_with_a_path_or_a_url_in_it_fails(seen):
    every = {status for counted in seen.statuses.values() for status in counted}
    assert None not in every and max(every) < 500


def test_only_a_picture_that_lies_inside_is_shown(seen):
    assert seen.statuses["thumbnail of 0.png"] == {200: 1}
    for name in ("linked.png", "passwd", SECRET):
        assert set(seen.statuses[f"thumbnail of {name}"]) == {404}
