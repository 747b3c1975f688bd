"""Neighbourhoods by brute force, one distance at a time."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from surefind.confidence.evidence import NEIGHBOURS, Neighbourhood
from surefind.embeddings import Gaussians
from surefind.functional import distance_variance, expected_distance


class BruteForce(NamedTuple):
    """Neighbourhood of queries, and the rows in it."""

    neighbourhood: Neighbourhood
    hits: list[list[int]]  # of each query, nearest first
    lists: list[list[list[int]]]  # of each query and hit, the hit's own neighbours


def squared(one: np.ndarray, other: np.ndarray) -> float:
    return float(((one - other) ** 2).sum())


def nearest_rows(point: np.ndarray, means: np.ndarray, *, but: Sequence[int], count: int) -> list[int]:
    away = np.square(means - point).sum(axis=1)
    rows = [row for row in range(len(means)) if row not in but]
    return sorted(rows, key=lambda row: away[row])[:count]


def equal_rows(point: np.ndarray, means: np.ndarray) -> list[int]:
    return np.flatnonzero((means == point).all(axis=1)).tolist()


def brute_force_neighbourhood(
    gallery: Gaussians, query: Gaussians, *, self_rows: Sequence[int] | None = None
) -> BruteForce:
    """Neighbourhood of queries; with `self_rows`, queries are rows of the gallery.

    Then rows equal to a query, or to a hit among its neighbours, are left out.
    """
    means, points = gallery.mean.double().numpy(), query.mean.double().numpy()
    var, query_var = gallery.var.double().numpy(), query.var.double().numpy()
    wide = query.to(torch.float64), gallery.to(torch.float64)
    expected = expected_distance(*wide).numpy()
    std = distance_variance(*wide).sqrt().numpy()
    hits, lists = [], []
    for number, point in enumerate(points):
        out = [] if self_rows is None else [self_rows[number], *equal_rows(point, means)]
        own = nearest_rows(point, means, but=out, count=NEIGHBOURS)
        hits.append(own)
        mine = [[x] if self_rows is None else equal_rows(means[x], means) for x in own]
        lists.append(
            [
                nearest_rows(means[x], means, but=[*out, *copies], count=NEIGHBOURS)
                for x, copies in zip(own, mine, strict=True)
            ]
        )
    pairs = list(zip(points, hits, strict=True))
    distance = np.array([[squared(point, means[x]) for x in own] for point, own in pairs])
    between = [[[squared(means[x], means[o]) for o in own] for x in own] for own in hits]
    around = [
        [[squared(means[x], means[o]) for o in its] for x, its in zip(own, them, strict=True)]
        for own, them in zip(hits, lists, strict=True)
    ]
    rows = np.arange(len(hits))[:, None], np.array(hits)
    neighbourhood = Neighbourhood(
        distance=distance,
        profile=distance.copy(),
        between=np.array(between),
        hit_knn_distances=np.array(around),
        expected=expected[rows],
        std=std[rows],
        query_var=query_var,
        var=var[np.array(hits)],
        log_var=np.zeros(len(hits)),
        neighbour_log_var=np.zeros(len(hits)),
    )
    return BruteForce(neighbourhood, hits, lists)
