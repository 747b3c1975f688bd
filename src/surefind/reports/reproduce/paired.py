"""Is a row better than another, or is it luck? Asked of the same queries."""

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.metrics import PairedTest, paired_test
from surefind.reports.queries import QueryTable
from surefind.reports.reproduce.plan import Plan
from surefind.reports.reproduce.rows import Row


def against(plan: Plan, row: Row, other: Row) -> PairedTest | None:
    """R@1 of a row less that of the other, query by query; None without their tables."""
    first, second = _right(plan, row), _right(plan, other)
    if first is None or second is None or first.keys() != second.keys():
        return None
    ours, theirs = (
        torch.tensor([values[name] for name in first], dtype=torch.float64)
        for values in (first, second)
    )
    return paired_test(ours, theirs)


def _right(plan: Plan, row: Row) -> dict[str, float] | None:
    """For each query, the share of seeds whose top hit is right."""
    shares: list[dict[str, bool]] = []
    for seed in range(plan.seeds_of(row)):
        path = plan.evaluation(row, seed) / "queries.csv"
        if not path.is_file():
            return None
        queries = QueryTable.read(path).own()
        right: NDArray[np.bool_] = queries[f"{row.ranking}.match_1"]
        shares.append(dict(zip(queries["id"].tolist(), right.tolist(), strict=True)))
    return {name: float(np.mean([share[name] for share in shares])) for name in shares[0]}
