"""The server is killed while rows are added, and started again on what it wrote."""

import threading

import numpy as np
import pytest
import torch
from galleries import random_embeddings, random_rows
from milvus_server import milvus_server

from surefind.engines.base import EngineError, Rows, Space
from surefind.engines.registry import create_engine

pytestmark = pytest.mark.milvus

DIM = 64
# How long a server waits for its old self to be given up: half a minute by default.
SOON = {"common.session.ttl": 10}


def add_until_it_fails(engine) -> dict[int, Rows]:
    """What was acknowledged, batch by batch."""
    acknowledged: dict[int, Rows] = {}
    while True:
        number = len(acknowledged)
        rows = random_rows(200, DIM, number, prefix=f"batch{number}")
        try:
            engine.add(rows)
        except EngineError:
            return acknowledged
        acknowledged[number] = rows


def test_what_was_acknowledged_survives_a_killed_server(milvus, tmp_path):
    with milvus_server(tmp_path, like=milvus, settings=SOON) as server:
        engine = create_engine(server.url, Space("gaussian", DIM), {"a": 1})
        stopper = threading.Timer(1.0, server.process.kill)
        stopper.start()
        acknowledged = add_until_it_fails(engine)
        stopper.join()
        with pytest.raises(EngineError, match="call again"):
            engine.search(np.zeros((1, DIM + 1), np.float32), 3)

        server.kill()
        server.start()
        kept = {name for block in engine.scan() for name in block.keys}  # connects anew
        wanted = {name for rows in acknowledged.values() for name in rows.ids}
        assert len(acknowledged) > 1 and wanted <= kept
        assert len(kept - wanted) in (0, 200)  # the batch under way: whole or not at all
        assert engine.count() == len(kept)
        first = acknowledged[0]
        back = engine.rows(np.array(first.ids, dtype=object))
        assert back.metadata == first.metadata
        assert torch.equal(back.embeddings.mean, first.embeddings.mean)
        assert engine.verify() == []
        engine.add(random_rows(10, DIM, 0, prefix="after"))
        queries = engine.space.queries(random_embeddings(10, DIM, 0)).vectors
        assert {*engine.search(queries, 1).keys[:, 0]} & {f"after-{n}" for n in range(10)}
        engine.close()
