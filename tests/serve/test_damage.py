"""A version that is damaged on the disk: the one before it is served, and people are told."""

from pathlib import Path

import numpy as np
import pytest
import torch
from serving import served
from stores import flip_bit

from surefind.embeddings import Gaussians
from surefind.search.index import Index


@pytest.fixture
def newer(own) -> Path:
    """The index, with a second version that has one image more."""
    add_one(own, "new.png")
    return own


def add_one(folder: Path, name: str) -> None:
    with Index.open(folder) as index:
        mean = np.eye(1, index.space.dim, dtype="f4")
        index.add_embeddings(Gaussians(torch.from_numpy(mean), torch.tensor([0.01])), [name])


def newest_manifest(folder: Path) -> Path:
    return max((folder / "store" / "versions").iterdir())


def test_the_version_before_a_damaged_one_is_served_and_readyz_says_so(newer, photo):
    flip_bit(newest_manifest(newer))
    with served(Index.open(newer)) as service:
        ready = service.client.get("/readyz")
        assert ready.status_code == 200 and ready.json()["ready"]
        assert (ready.json()["version"], ready.json()["images"]) == (1, 144)
        info = service.client.get("/v1/info")
        assert ready.json()["warnings"] and info.json()["warnings"]
        assert str(newer.parent) not in ready.text + info.text
        assert service.client.post("/v1/search", content=photo).status_code == 200


def test_damage_while_serving_changes_no_answer_and_readyz_says_so(own, photo):
    with served(Index.open(own)) as service:
        before = service.client.post("/v1/search", content=photo).json()["hits"]
        add_one(own, "new.png")
        flip_bit(newest_manifest(own))
        service.state.service.live.reload_if_newer()
        ready = service.client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["reload"] or ready.json()["warnings"]
        assert ready.json()["version"] == 1
        assert service.client.post("/v1/search", content=photo).json()["hits"] == before


def test_a_whole_version_after_a_damaged_one_is_taken_and_the_trouble_forgotten(own):
    with served(Index.open(own)) as service:
        add_one(own, "new.png")
        flip_bit(newest_manifest(own))
        service.state.service.live.reload_if_newer()
        with Index.open(own) as index:
            index.repair()
        add_one(own, "newer.png")
        service.state.service.live.reload_if_newer()
        ready = service.client.get("/readyz").json()
        assert ready["reload"] is None and ready["warnings"] == []
        assert ready["images"] == 145


def test_a_damaged_calibration_while_serving_leaves_the_one_in_use(own, photo):
    with served(Index.open(own)) as service:
        before = service.client.post("/v1/search", content=photo).json()
        for file in sorted((own / "calibration").rglob("*")):
            if file.is_file() and file.stat().st_size:
                flip_bit(file)
        service.state.service.live.reload_if_newer()
        after = service.client.post("/v1/search", content=photo).json()
        assert after["confidence"] == before["confidence"] is not None
        ready = service.client.get("/readyz")
        assert ready.status_code == 200 and ready.json()["reload"]
        assert str(own.parent) not in ready.text
