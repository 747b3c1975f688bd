"""A version that is damaged on the disk: the one that is open is served, and people are told."""

from pathlib import Path

import numpy as np
import torch
from serving import served
from stores import change_documents, flip_last_bit

from surefind.embeddings import Gaussians
from surefind.search.index import Index


def add_one(folder: Path, name: str) -> None:
    with Index.open(folder) as index:
        mean = np.eye(1, index.space.dim, dtype="f4")
        index.add_embeddings(Gaussians(torch.from_numpy(mean), torch.tensor([0.01])), [name])


def damage(folder: Path) -> Path:
    """Flip a bit in the vector that was added last."""
    (vectors,) = (folder / "store").glob("*.vectors")
    flip_last_bit(vectors)
    return vectors


def test_damage_while_serving_changes_no_answer_and_readyz_says_so_without_the_folder(own, photo):
    with served(Index.open(own)) as service:
        before = service.client.post("/v1/search", content=photo).json()["hits"]
        add_one(own, "new.png")
        damage(own)
        service.state.service.live.reload_if_newer()
        ready = service.client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["reload"] and ready.json()["version"] == 1
        assert service.client.post("/v1/search", content=photo).json()["hits"] == before
        for path in ("/readyz", "/v1/info"):
            assert str(own.parent) not in service.client.get(path).text


def test_a_damaged_calibration_while_serving_leaves_the_one_in_use(own, photo):
    with served(Index.open(own)) as service:
        before = service.client.post("/v1/search", content=photo).json()
        change_documents(own / "store" / "index.db", "UPDATE documents SET sha256 = x''")
        service.state.service.live.reload_if_newer()
        after = service.client.post("/v1/search", content=photo).json()
        assert after["confidence"] == before["confidence"] is not None
        ready = service.client.get("/readyz")
        assert ready.status_code == 200 and ready.json()["reload"]
        assert str(own.parent) not in ready.text
