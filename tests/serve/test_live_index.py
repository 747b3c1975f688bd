"""Newer versions of the index replace the served one; damaged ones do not."""

from pathlib import Path

import numpy as np
import pytest
import torch
from reloading import reload_under_load
from serving import served
from stores import change_documents, flip_last_bit

from surefind.embeddings import Gaussians
from surefind.errors import SurefindError
from surefind.search.index import Index
from surefind.serve.service import LiveIndex

CLIENTS = 8


@pytest.fixture
def live(own):
    made = LiveIndex(Index.open(own))
    yield made
    made.current.index.close()


def add_one(folder: Path, name: str) -> None:
    with Index.open(folder) as index:
        mean = np.eye(1, index.space.dim, dtype="f4")
        index.add_embeddings(Gaussians(torch.from_numpy(mean), torch.tensor([0.01])), [name])


def test_a_newer_version_is_loaded_and_the_older_one_still_answers(live, own):
    before = live.current
    assert (before.images, before.version, before.reload_error) == (144, 1, None)
    assert not live.reload_if_newer()
    assert live.current == before and live.reloads == 0
    add_one(own, "new")
    assert live.reload_if_newer()
    assert (live.current.images, live.current.version, live.reloads) == (145, 2, 1)
    assert (before.images, len(before.index), len(live.current.index)) == (144, 144, 145)
    assert not len(before.index.items(["new"])) and len(live.current.index.items(["new"]))


@pytest.mark.parametrize(
    "error", [SurefindError("it is broken", fix="mend it"), OSError(5, "it is broken")]
)
def test_a_reload_error_is_logged_once_and_cleared_when_it_is_over(
    live, monkeypatch, error, caplog
):
    def fail(self):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(Index, "newest", fail)
        assert not live.reload_if_newer() and not live.reload_if_newer()
    assert "it is broken" in live.current.reload_error and live.current.images == 144
    assert caplog.text.count("cannot be served") == 1
    assert not live.reload_if_newer()
    assert live.current.reload_error is None


@pytest.mark.parametrize("damaged", ["vectors", "calibration"])
def test_a_damaged_version_is_not_served_and_readyz_says_so_without_the_folder(own, photo, damaged):
    with served(Index.open(own)) as service:
        before = service.client.post("/v1/search", content=photo).json()
        if damaged == "vectors":
            add_one(own, "new.png")
            (vectors,) = (own / "store").glob("*.vectors")
            flip_last_bit(vectors)
        else:
            change_documents(own / "store" / "index.db", "UPDATE documents SET sha256 = x''")
        service.state.service.live.reload_if_newer()
        after = service.client.post("/v1/search", content=photo).json()
        assert after["hits"] == before["hits"]
        assert after["confidence"] == before["confidence"] is not None
        ready = service.client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["reload"] and ready.json()["version"] == 1
        for path in ("/readyz", "/v1/info"):
            assert str(own.parent) not in service.client.get(path).text


@pytest.mark.parametrize("reloads", [20, pytest.param(120, marks=pytest.mark.faults)])
def test_no_request_fails_while_versions_are_replaced_under_load(home, own, reloads):
    photos = [(home / "queries" / f"class{n:02}" / "0.png").read_bytes() for n in range(CLIENTS)]
    with served(Index.open(own), reload_seconds=0.02) as service:
        clients = reload_under_load(service, own, home / "queries", photos, reloads=reloads)
        assert service.state.service.live.reloads >= reloads
    assert [problem for client in clients for problem in client.wrong] == []
    assert all(len(client.versions) > 1 for client in clients)
