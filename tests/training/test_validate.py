"""R@1 against a plain loop."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import surefind as sf
from surefind.images.catalog import Catalog
from surefind.images.matches import matches_of
from surefind.training import validate
from surefind.training.validate import recall_at_1


def naive(mean: torch.Tensor, catalog: Catalog, rows: list[int]) -> float:
    unit = torch.nn.functional.normalize(mean, dim=1).double().numpy()
    asks = catalog.queries or (True,) * len(catalog)
    found = catalog.queries and [not query for query in catalog.queries]
    found = found or (True,) * len(catalog)
    hits = []
    for i, row in enumerate(rows):
        others = [j for j, other in enumerate(rows) if other != row and found[other]]
        matching = [j for j in others if catalog.labels[rows[j]] == catalog.labels[row]]
        if not asks[row] or not matching:
            continue
        nearest = min(others, key=lambda j: np.square(unit[i] - unit[j]).sum())
        hits.append(nearest in matching)
    return sum(hits) / len(hits) if hits else math.nan


@pytest.mark.parametrize("with_roles", [False, True])
def test_recall_is_that_of_a_plain_loop(with_roles: bool, monkeypatch):
    monkeypatch.setattr(validate, "BLOCK", 7)
    dice = torch.Generator().manual_seed(0)
    labels = (*(f"c{i % 9}" for i in range(40)), "alone")
    catalog = Catalog(
        Path(),
        tuple(f"{i}.png" for i in range(41)),
        labels=labels,
        queries=tuple(i % 4 == 0 for i in range(41)) if with_roles else (),
    )
    rows = [row for row in range(41) if row not in (4, 17)]  # two could not be read
    mean = torch.randn(len(rows), 3, generator=dice)
    batch = sf.Gaussians(mean, torch.ones(len(rows)))
    found = recall_at_1(batch, torch.tensor(rows), catalog, matches_of(catalog))
    assert found == pytest.approx(naive(mean, catalog, rows))


def test_without_an_answerable_query_there_is_no_recall():
    catalog = Catalog(Path(), ("a", "b"), labels=("x", "y"))
    batch = sf.Gaussians(torch.eye(2), torch.ones(2))
    assert math.isnan(recall_at_1(batch, torch.arange(2), catalog, matches_of(catalog)))
