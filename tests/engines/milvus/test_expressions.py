"""Conditions in Milvus's language: on the real server they mean what `Condition.holds` means."""

import itertools
import json

import numpy as np
import pytest
import torch

import surefind as sf
from surefind.engines.engine import Rows
from surefind.engines.milvus.queries import BYTES_AT_ONCE, among, literal, portions
from surefind.engines.where import COMPARE, Condition, Where, kind
from surefind.errors import InvalidArgument

TEXTS = (
    *(
        "",
        "a",
        "aa",
        "A",
        "b",
        "z",
        "é",
        "e\u0301",
        "😀",
        "\uffff",
        "1",
        "1.0",
        "true",
        "null",
        "%",
    ),
    *("_", 'q"uote', "a'b", "back\\slash", "\\", "\\n", "new\nline", "\t", "\x01", "\x7f"),
    *("\u2028", '" or true or "', "{x}", "/* x", "# x", "// x"),
)
NUMBERS = (
    *(0, 1, 2, -1, 2**53 - 1, -(2**53) + 1, 2**52 + 1, 10**15, 0.0, -0.0, 1.0, 0.5, 2.5, -2.5),
    *(0.1 + 0.2, 0.3, 1e-7, 5e-324, 1e15, 1e16, 1e22, 1e308, -1e308),
)
VALUES = (*TEXTS, *NUMBERS, True, False)
METADATA = [{}, {"g": "f"}, {"g": 1, "f": "a"}, *({"f": value} for value in VALUES)]


def grid():
    for op, value in itertools.product(COMPARE, VALUES):
        like = [other for other in VALUES if kind(other) == kind(value)]
        try:
            yield Condition("f", op, (value, like[0], like[-1]) if op == "in" else value)
        except InvalidArgument:
            continue  # order of truth values


def rows_with(metadata, ids=None):
    count = len(metadata)
    mean = torch.randn(count, 4, generator=torch.Generator().manual_seed(0))
    var = 0.25 * torch.arange(1, count + 1)
    names = ids or tuple(f"{number:03}" for number in range(count))
    return Rows(tuple(names), sf.Gaussians(mean, var), ("",) * count, tuple(metadata))


def found_by(engine, where) -> set[str]:
    return {name for block in engine.scan(where) for name in block.keys}


def expected(rows, where) -> set[str]:
    var = rows.embeddings.spread.tolist()
    return {
        name
        for name, metadata, spread in zip(rows.ids, rows.metadata, var, strict=True)
        if where.holds(metadata, spread)
    }


@pytest.mark.milvus
@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "in the store"])
def test_conditions_hold_where_they_should(engine, stored):
    rows = rows_with(METADATA)
    engine.add(rows)
    if stored:
        engine.compact()
    wrong = [
        condition
        for condition in grid()
        if found_by(engine, Where((condition,))) != expected(rows, Where((condition,)))
    ]
    assert wrong == []


@pytest.mark.milvus
@pytest.mark.parametrize("op", COMPARE)
def test_conditions_on_the_variance_are_exact(engine, op):
    rows = rows_with([{}] * 8)
    engine.add(rows)
    for value in (0.25, 1, 1.5, 2, 7, 1e-12, np.nextafter(0.5, 0).item()):
        where = Where((Condition("var", op, (value, 1, 0.75) if op == "in" else value),))
        assert found_by(engine, where) == expected(rows, where), where


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_quoted_as_one_literal(text):
    assert json.loads(literal(text)) == text


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
