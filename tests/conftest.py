"""Shared by all tests: how to draw embeddings, and servers that start when first asked for."""

from collections.abc import Iterator

import pytest
import torch
from milvus_server import MilvusServer, milvus_server
from postgres import PostgresServer, postgres_server
from sampling import Draw


@pytest.fixture
def draw() -> Draw:
    return Draw(torch.Generator().manual_seed(0))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    with milvus_server(tmp_path_factory.mktemp("milvus")) as server:
        yield server
