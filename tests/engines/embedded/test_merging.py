"""Which segments become one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefind.engines.embedded.merging import AT_ONCE, groups, tier, too_many_dead

COUNTS = st.lists(st.integers(1, 2_000_000), max_size=60)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [(1, 0), (1024, 0), (8191, 0), (8192, 1), (65_535, 1), (65_536, 2), (524_288, 3)],
)
def test_tiers_grow_eightfold(rows: int, wanted: int):
    assert tier(rows) == wanted


@given(COUNTS)
def test_every_segment_is_in_one_group(living: list[int]):
    found = [number for group in groups(living) for number in group]
    assert sorted(found) == list(range(len(living)))


@given(COUNTS)
def test_no_tier_is_full_afterwards(living: list[int]):
    tiers = [tier(sum(living[number] for number in group)) for group in groups(living)]
    assert all(tiers.count(one) < AT_ONCE for one in tiers)


def test_seven_of_a_size_stay_and_the_eighth_makes_them_one():
    assert len(groups([2000] * 7)) == 7
    assert groups([2000] * 8) == [tuple(range(8))]


def test_what_becomes_one_may_fill_the_next_tier():
    assert len(groups([9000] * 7 + [2000] * 8)) == 1


def test_a_large_segment_is_left_alone():
    assert (3,) in groups([1, 1, 1, 1_000_000, 1, 1, 1, 1, 1])


def test_rows_are_written_a_few_times_in_all():
    """Adding 1,000 at a time writes each row once per tier, and a few segments remain."""
    living: list[int] = []
    written = 0
    for _ in range(1000):
        found = groups([*living, 1000])
        sizes = [sum([*living, 1000][n] for n in group) for group in found]
        written += sum(size for size, group in zip(sizes, found, strict=True) if len(group) > 1)
        living = sizes
    assert sum(living) == 1_000_000
    assert len(living) <= 28
    assert written <= 4 * sum(living)


def test_a_segment_with_more_than_three_tenths_dead_is_written_anew():
    assert not too_many_dead(10, 7)
    assert too_many_dead(10, 6)
