"""Newer versions of the index replace the served one; damaged ones do not."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
import torch
from servers import PATIENCE, client_of, served, wait_until
from stores import change_documents, flip_last_bit

from surefind.confidence.calibrate import CalibrationTargets
from surefind.embeddings import Gaussians
from surefind.errors import SurefindError
from surefind.search.index import Index
from surefind.serve.service import LiveIndex

CLIENTS, K = 8, 5


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
    live.reload_if_newer()
    assert live.current == before and live.reloads == 0
    add_one(own, "new")
    live.reload_if_newer()
    assert (live.current.images, live.current.version, live.reloads) == (145, 2, 1)
    assert (before.images, len(before.index), len(live.current.index)) == (144, 144, 145)
    assert not len(before.index.items(["new"])) and len(live.current.index.items(["new"]))


@pytest.mark.parametrize("error", [SurefindError("it is broken", fix="mend it"), OSError(5, "it is broken")])
def test_a_reload_error_is_logged_once_and_cleared_when_it_is_over(live, monkeypatch, error, caplog):
    def fail(self):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(Index, "newest", fail)
        live.reload_if_newer()
        live.reload_if_newer()
    assert live.reloads == 0 and "it is broken" in live.current.reload_error and live.current.images == 144
    assert caplog.text.count("cannot be served") == 1
    live.reload_if_newer()
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


# reloads under load


@dataclass
class Changes:
    """Ids of each version, and removed ids."""

    ids: dict[int, frozenset[str]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)


@dataclass
class Client:
    """Searches, and requests the neighbours of its hits, until stopped."""

    url: str
    photo: bytes
    changes: Changes
    enough: Event
    versions: set[int] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def work(self) -> None:
        newest = 0
        with client_of(self.url) as client:
            while not self.enough.is_set():
                try:
                    found = self._answer(client.post(f"/v1/search?k={K}", content=self.photo))
                    newest = self._check(found, newest)
                    for hit in found["hits"][:2]:
                        newest = self._look_around(client, hit, newest)
                except Exception as error:  # noqa: BLE001 - reported by the test
                    self.wrong.append(repr(error))

    def _look_around(self, client: Any, hit: dict[str, Any], newest: int) -> int:
        response = client.get(hit["links"]["neighbours"], params={"k": K})
        if response.status_code == 404 and hit["id"] in self.changes.removed:
            return newest
        found = self._answer(response)
        if hit["id"] in [other["id"] for other in found["hits"]]:
            self.wrong.append(f"{hit['id']} is its own neighbour")
        return self._check(found, newest)

    def _answer(self, response: Any) -> dict[str, Any]:
        if response.status_code != 200:
            raise AssertionError(f"{response.status_code}: {response.text}")
        return dict(response.json())

    def _check(self, found: dict[str, Any], newest: int) -> int:
        """Check that a result is complete, of one version, and not older than the last."""
        version, hits = found["index"]["version"], found["hits"]
        names, sure = [hit["id"] for hit in hits], [hit["confidence"] for hit in hits]
        self.versions.add(version)
        if version < newest:
            self.wrong.append(f"version {version} after {newest}")
        if found["verdict"] is None or None in sure:
            self.wrong.append(f"version {version}: no confidence")
        elif len(set(names)) != K or sure != sorted(sure, reverse=True):
            self.wrong.append(f"version {version}: hits {names} with {sure}")
        if not self.changes.ids[version].issuperset(names):
            self.wrong.append(f"version {version} has not all of {names}")
        if found["index"]["images"] != len(self.changes.ids[version]):
            self.wrong.append(f"version {version} has not {found['index']['images']} images")
        return max(version, newest)


@contextmanager
def searching(url: str, photos: list[bytes], changes: Changes) -> Iterator[list[Client]]:
    """Run a client for each photo in a thread."""
    enough = Event()
    clients = [Client(url, photo, changes, enough) for photo in photos]
    threads = [Thread(target=client.work, daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield clients
    finally:
        enough.set()
        for thread in threads:
            thread.join(PATIENCE)


def change(index: Index, queries: Path, step: int, changes: Changes) -> None:
    """Add rows near existing ones, remove older ones, or calibrate again."""
    names = set(changes.ids[max(changes.ids)])
    if step % 7 == 6:
        precision = 0.7 + 0.01 * (step % 10)
        index.calibrate(queries, targets=CalibrationTargets(precision=precision), learn_variance=False)
        return
    if step % 3 == 2:
        going = sorted(name for name in names if name.startswith("new"))[:4]
        changes.removed.update(going)
        names -= set(going)
        changes.ids[_version(index) + 1] = frozenset(names)
        index.remove(going)
    else:
        new, rows, facts = _beside(index, step)
        names |= set(new)
        changes.ids[_version(index) + 1] = frozenset(names)
        index.add_embeddings(rows, new, metadata=facts)
    assert _version(index) == max(changes.ids)


def _version(index: Index) -> int:
    return int(index.describe()["version"])


def _beside(index: Index, step: int) -> tuple[list[str], Gaussians, list[dict[str, Any]]]:
    """Rows close to existing ones, with their labels, so that they become hits."""
    random = np.random.default_rng(step)
    known = next(iter(index._engine.scan()))
    found = index._engine.rows(random.choice(known.keys, 6, replace=False))
    rows = found.embeddings
    moved = rows.mean + 1e-3 * torch.from_numpy(random.normal(size=rows.mean.shape)).float()
    mean = torch.nn.functional.normalize(moved, dim=1)
    names = [f"new/{step:03}-{row}" for row in range(6)]
    facts = [{"label": facts["label"]} for facts in found.metadata]
    return names, Gaussians(mean, rows.spread.clone()), facts


@pytest.mark.parametrize("reloads", [20, pytest.param(120, marks=pytest.mark.faults)])
def test_no_request_fails_while_versions_are_replaced_under_load(home, own, reloads):
    photos = [(home / "queries" / f"class{n:02}" / "0.png").read_bytes() for n in range(CLIENTS)]
    with served(Index.open(own), reload_seconds=0.02) as service, Index.open(own) as index:
        live, engine = service.state.service.live, index._engine
        every = (name for block in engine.scan() for name in engine.rows(block.keys).ids)
        changes = Changes({_version(index): frozenset(every)})
        with searching(service.url, photos, changes) as clients:
            for step in range(reloads):
                before = live.reloads
                change(index, home / "queries", step, changes)
                wait_until(lambda: live.reloads > before)
            final = max(changes.ids)
            wait_until(lambda: all(final in client.versions for client in clients))
    assert [problem for client in clients for problem in client.wrong] == []
    assert all(len(client.versions) > 1 for client in clients)
