"""R@1, MAP@R and the AUROC of the variance against a plain loop."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import surefind as sf
from surefind.images.catalog import Catalog
from surefind.images.matches import matches_of
from surefind.training import trainer as module
from surefind.training.trainer import validate


def naive(batch: sf.Gaussians, catalog: Catalog, rows: list[int]) -> tuple[float, float, float]:
    mean = batch.mean.double().numpy()
    asks = catalog.queries or (True,) * len(catalog)
    found = catalog.queries and [not query for query in catalog.queries]
    found = found or (True,) * len(catalog)
    hits, precisions, variances = [], [], []
    for i, row in enumerate(rows):
        others = [j for j, other in enumerate(rows) if other != row and found[other]]
        matching = [j for j in others if catalog.labels[rows[j]] == catalog.labels[row]]
        if not asks[row] or not matching:
            continue
        order = sorted(others, key=lambda j: np.square(mean[i] - mean[j]).sum())
        precision, so_far = 0.0, 0
        for place, j in enumerate(order[: len(matching)], start=1):
            if j in matching:
                so_far += 1
                precision += so_far / place
        hits.append(order[0] in matching)
        precisions.append(precision / len(matching))
        variances.append(float(batch.var[i]))
    wrong = [v for v, hit in zip(variances, hits, strict=True) if not hit]
    right = [v for v, hit in zip(variances, hits, strict=True) if hit]
    pairs = [(w > r) + 0.5 * (w == r) for w in wrong for r in right]
    return np.mean(hits), np.mean(precisions), np.mean(pairs)


@pytest.mark.parametrize("with_roles", [False, True])
def test_measures_are_those_of_a_plain_loop(with_roles: bool, monkeypatch):
    monkeypatch.setattr(module, "QUERIES_AT_ONCE", 7)
    random = torch.Generator().manual_seed(0)
    labels = (*(f"c{i % 9}" for i in range(40)), "alone")
    catalog = Catalog(
        Path(),
        tuple(f"{i}.png" for i in range(41)),
        labels=labels,
        queries=tuple(i % 4 == 0 for i in range(41)) if with_roles else (),
    )
    rows = [row for row in range(41) if row not in (4, 17)]  # two could not be read
    mean = torch.randn(len(rows), 3, generator=random)
    batch = sf.Gaussians(mean, 0.1 + torch.rand(len(rows), generator=random))
    found = validate(batch, torch.tensor(rows), catalog, matches_of(catalog))
    assert found == pytest.approx(naive(batch, catalog, rows))


def test_kappa_is_read_as_a_precision():
    catalog = Catalog(Path(), ("a", "b", "c", "d"), labels=("x", "x", "y", "y"))
    mean = torch.nn.functional.normalize(torch.tensor([[1, 0], [1, 0.1], [1, 0.3], [0, 1.0]]))
    batch = sf.VonMisesFisher(mean, torch.tensor([9.0, 8.0, 1.0, 2.0]))  # the third is wrong
    assert validate(batch, torch.arange(4), catalog, matches_of(catalog)).variance_auroc == 1


def test_without_an_answerable_query_there_is_nothing_to_measure():
    catalog = Catalog(Path(), ("a", "b"), labels=("x", "y"))
    batch = sf.Gaussians(torch.eye(2), torch.ones(2))
    found = validate(batch, torch.arange(2), catalog, matches_of(catalog))
    assert all(math.isnan(value) for value in found)
