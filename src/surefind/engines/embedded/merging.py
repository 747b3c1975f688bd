"""Which segments are put together, so that they stay few and little is written twice."""

from collections import defaultdict
from collections.abc import Sequence
from math import log

SMALLEST = 1024  # rows of a segment that is worth more than its file
AT_ONCE = 8  # segments of about the same size become one
MOST_DEAD = 0.3  # share of a segment; beyond it the segment is written anew without them

Group = tuple[int, ...]


def tier(rows: int) -> int:
    """Segments of a tier are at most eight times as large as each other."""
    return max(0, int(log(rows / SMALLEST, AT_ONCE) + 1e-9)) if rows > SMALLEST else 0


def groups(living: Sequence[int]) -> list[Group]:
    """What becomes one segment, given how many rows live in each; each row moves up log8 times.

    >>> groups([100] * 7 + [5000])
    [(0, 1, 2, 3, 4, 5, 6, 7)]
    >>> groups([100] * 6 + [50_000])
    [(0,), (1,), (2,), (3,), (4,), (5,), (6,)]
    """
    found: list[Group] = [(number,) for number in range(len(living))]
    while True:
        tiers = defaultdict(list)
        for group in found:
            tiers[tier(sum(living[number] for number in group))].append(group)
        full = next((tiers[key] for key in sorted(tiers) if len(tiers[key]) >= AT_ONCE), None)
        if full is None:
            return sorted(found)
        merged = tuple(sorted(number for group in full for number in group))
        found = [group for group in found if group not in full] + [merged]


def too_many_dead(rows: int, living: int) -> bool:
    return living < (1 - MOST_DEAD) * rows
