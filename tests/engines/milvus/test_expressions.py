"""Texts and lists of ids as Milvus's expressions."""

import itertools

import pytest

from surefind.engines.milvus.queries import BYTES_AT_ONCE, among, portions


def test_long_lists_are_divided():
    names = [f"{number:05}" for number in range(9000)]
    assert [len(some) for some in portions(names)] == [4096, 4096, 808]
    assert list(itertools.chain(*portions([*names, *names]))) == names


def test_long_texts_are_divided_by_their_size():
    names = [f"{number:05}" + "😀" * 250 for number in range(3000)]
    parts = list(portions(names))
    assert list(itertools.chain(*parts)) == names
    assert all(len(among("id", some).encode()) < 1.1 * BYTES_AT_ONCE for some in parts)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 1025, "é" * 513, "\ud800"])
def test_what_can_be_no_id_is_not_asked_for(name):
    assert list(portions([name, "a"])) == [["a"]]
