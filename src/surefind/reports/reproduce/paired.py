"""Is a row better than another, or is it luck? Asked of the same queries."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.metrics import PairedTest, paired_test
from surefind.reports.reproduce.plan import Plan
from surefind.reports.reproduce.rows import Row
from surefind.reports.result import QueryTable


def against(plan: Plan, row: Row, other: Row) -> PairedTest | None:
    """R@1 of a row less that of the other, query by query; None without their tables.

    Queries of one label are resampled and flipped together.
    """
    first, second = _right(plan, row), _right(plan, other)
    if first is None or second is None or first.keys() != second.keys():
        return None
    ours, theirs = (
        torch.tensor([values[query] for query in first], dtype=torch.float64)
        for values in (first, second)
    )
    labels = [query.label or query.name for query in first]
    groups = torch.from_numpy(np.unique(labels, return_inverse=True)[1])
    return paired_test(ours, theirs, groups=groups)


class _Query(NamedTuple):
    name: str
    label: str  # "" where matches are by position


def _right(plan: Plan, row: Row) -> dict[_Query, float] | None:
    """For each query, the share of seeds whose top hit is right."""
    shares: list[dict[_Query, bool]] = []
    for seed in range(plan.seeds_of(row)):
        path = plan.evaluation(row, seed) / "queries.csv"
        if not path.is_file():
            return None
        queries = QueryTable.read(path).own()
        right: NDArray[np.bool_] = queries[f"{row.ranking}.match_1"]
        named = map(_Query, queries["id"].tolist(), queries["label"].tolist())
        shares.append(dict(zip(named, right.tolist(), strict=True)))
    if any(share.keys() != shares[0].keys() for share in shares):
        return None  # one of them gave images the same vector, which then count as copies
    return {query: float(np.mean([share[query] for share in shares])) for query in shares[0]}
