"""SIGKILL to every process of a real PostgreSQL during adds: what was acknowledged is there."""

import random
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from postgres import PostgresServer, postgres_server

import surefind as sf
from surefind.engines.base import EngineError, Rows, Space
from surefind.engines.pgvector.engine import PgvectorEngine
from surefind.engines.registry import create_engine, open_engine

DIM, EACH = 16, 25


def batch(number: int) -> Rows:
    """Rows that can be told from their number, and one that every batch replaces."""
    generator = torch.Generator().manual_seed(number)
    ids = (*(f"{number}-{row}" for row in range(EACH)), "latest")
    mean = torch.randn(len(ids), DIM, generator=generator)
    var = torch.rand(len(ids), generator=generator) + 0.01
    metadata = ({"batch": number},) * len(ids)
    return Rows(ids, sf.Gaussians(mean, var), (f"{number:064x}",) * len(ids), metadata)


@dataclass
class Writer:
    """Adds batch after batch, and each one again until it is acknowledged."""

    engine: PgvectorEngine
    acknowledged: int = 0
    errors: list[EngineError] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)
    surprise: BaseException | None = None

    def work(self) -> None:
        try:
            while not self.enough.is_set():
                try:
                    self.engine.add(batch(self.acknowledged))
                    self.acknowledged += 1
                    asked = self.engine.space.gallery_vectors(batch(0).embeddings[:1])
                    assert self.engine.search(asked, 3).keys.shape == (1, 3)
                except EngineError as error:
                    self.errors.append(error)
                    time.sleep(0.02)
        except BaseException as error:  # noqa: BLE001 - reported by the test
            self.surprise = error


def kill_during_adds(server: PostgresServer, engine: PgvectorEngine, kills: int) -> Writer:
    moments = random.Random(kills)
    writer = Writer(engine)
    thread = threading.Thread(target=writer.work)
    thread.start()
    try:
        for _ in range(kills):
            before = writer.acknowledged
            while writer.acknowledged == before and thread.is_alive():
                time.sleep(0.001)
            time.sleep(moments.uniform(0, 0.05))
            server.kill()
            server.start()
    finally:
        writer.enough.set()
        thread.join()
    return writer


def check_all_is_there(url: str, writer: Writer) -> None:
    engine = open_engine(url)
    try:
        keys = np.concatenate([block.keys for block in engine.scan()])
        rows = engine.rows(keys)
        place = {name: row for row, name in enumerate(rows.ids)}
        for number in range(writer.acknowledged):
            given = batch(number)
            chosen = [place[name] for name in given.ids[:EACH]]
            assert torch.equal(rows.embeddings.mean[chosen], given.embeddings.mean[:EACH])
            assert {rows.digests[row] for row in chosen} == {given.digests[0]}
        begun = sum(name.startswith(f"{writer.acknowledged}-") for name in rows.ids)
        assert begun in (0, EACH)  # not acknowledged: all or nothing
        latest = rows.metadata[place["latest"]]["batch"]
        assert latest == writer.acknowledged - (begun == 0)
        assert len(rows) == writer.acknowledged * EACH + begun + 1
        assert engine.verify() == []
        asked = batch(0)
        stored = engine.space.gallery_vectors(asked.embeddings[:EACH])
        found = engine.search(stored, 1)  # along the graph, which was written to as well
        assert engine.rows(found.keys[:, 0]).ids == asked.ids[:EACH]
    finally:
        engine.close()


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.faults)])
def test_kills_during_adds_lose_nothing_that_was_acknowledged(kills: int):
    with postgres_server() as server:
        url = server.url() + "&options=-c%20enable_seqscan%3Doff"
        engine = create_engine(url, Space("gaussian", DIM), {}, kind="hnsw")
        engine.add(batch(0))
        engine.compact()
        assert not engine.exact
        writer = kill_during_adds(server, engine, kills)
        engine.close()
        assert writer.surprise is None
        assert len(writer.errors) >= kills
        for error in writer.errors:
            assert "call again" in error.fix or "start the server" in error.fix, error
        assert sum("call again" in error.fix for error in writer.errors) > 0
        assert writer.acknowledged >= kills
        check_all_is_there(url, writer)
