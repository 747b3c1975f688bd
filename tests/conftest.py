"""Shared by all tests: how to draw embeddings, and a seeded generator."""

import pytest
import torch
from sampling import Draw


@pytest.fixture
def draw() -> Draw:
    return Draw(torch.Generator().manual_seed(0))
