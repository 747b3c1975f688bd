"""The format of a segment, and files that lie about themselves."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from surefind.engines.embedded.container import ALIGNED, Shape, columns_of, layout
from surefind.engines.embedded.damage import Damaged

PATH = Path("some.segment")
SHAPE = Shape(rows=3, width=5, id_bytes=7, metadata_bytes=9, digests=2, preface=45)


def written(shape: Shape = SHAPE) -> NDArray[np.uint8]:
    """A file in which every column counts from its own number on."""
    plan = layout(shape)
    content = np.zeros(plan.size, np.uint8)
    content[: len(plan.header)] = np.frombuffer(plan.header, np.uint8)
    for number, column in enumerate(plan.columns.values()):
        size = int(np.prod(column.shape))
        place = content[column.offset : column.offset + column.nbytes]
        place[:] = np.arange(number, number + size).astype(column.dtype).view(np.uint8)
    return content


def with_header(change) -> NDArray[np.uint8]:
    """The same file with another header of the same length."""
    content = written()
    length = int(content[:8].view("<u8")[0])
    told = json.loads(content[8 : 8 + length].tobytes())
    text = json.dumps(change(told) or told).encode()
    content[8 : 8 + length] = np.frombuffer(text.ljust(length)[:length], np.uint8)
    return content


def test_columns_come_back_as_they_were_written():
    for number, (name, column) in enumerate(columns_of(PATH, written()).items()):
        wanted = np.arange(number, number + column.size).astype(column.dtype)
        assert np.array_equal(column.ravel(), wanted), name


def test_columns_are_aligned_and_the_preface_ends_where_the_vectors_begin():
    columns = layout(SHAPE).columns
    preface = columns.pop("preface")
    assert preface.offset + preface.nbytes == columns["vectors"].offset
    assert all(column.offset % ALIGNED == 0 for column in columns.values())


def test_columns_are_views_of_the_file():
    content = written()
    assert all(np.shares_memory(content, c) for c in columns_of(PATH, content).values())


@pytest.mark.parametrize("number", [2**62, -1, 0, 4, True, 2.0, "3", None, [3], 10**400])
@pytest.mark.parametrize("name", ["rows", "width", "id_bytes", "metadata_bytes", "digests"])
def test_a_size_that_lies_is_refused(name: str, number: object):
    lie = with_header(lambda told: told["shape"].update({name: number}))
    with pytest.raises(Damaged, match="header"):
        columns_of(PATH, lie)


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told["columns"]["vectors"].__setitem__(2, 0),
        lambda told: told["columns"]["vectors"].__setitem__(2, 2**60),
        lambda told: told["columns"]["vectors"].__setitem__(0, "|O"),
        lambda told: told["columns"]["key"].__setitem__(1, [2**60]),
        lambda told: told["columns"].pop("key") and None,
        lambda told: told.pop("shape") and None,
        lambda told: told.update(format="another"),
        lambda told: [told],
        lambda told: "text",
    ],
)
def test_a_header_that_says_anything_else_is_refused(change):
    with pytest.raises(Damaged, match="header"):
        columns_of(PATH, with_header(change))


@pytest.mark.parametrize("length", [0, 1, 2**40, 2**64 - 1, 16_385])
def test_a_header_of_another_length_is_refused(length: int):
    content = written()
    content[:8] = np.frombuffer(length.to_bytes(8, "little"), np.uint8)
    with pytest.raises(Damaged, match="header"):
        columns_of(PATH, content)


def test_a_header_nested_without_end_is_refused():
    content = np.frombuffer((10_000).to_bytes(8, "little") + b"[" * 10_000, np.uint8)
    with pytest.raises(Damaged, match="header"):
        columns_of(PATH, content)


def test_a_file_that_is_shorter_or_longer_is_refused():
    content = written()
    for other in (content[:-1], content[:64], content[:3], np.append(content, np.uint8(0))):
        with pytest.raises(Damaged, match="header"):
            columns_of(PATH, other)


def test_every_changed_bit_of_the_header_is_seen():
    content = written()
    for bit in range(8 * len(layout(SHAPE).header)):
        content[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damaged):
            columns_of(PATH, content)
        content[bit // 8] ^= 1 << bit % 8


@given(st.binary(max_size=300))
def test_no_bytes_are_taken_for_a_segment(content: bytes):
    with pytest.raises(Damaged):
        columns_of(PATH, np.frombuffer(content, np.uint8))
