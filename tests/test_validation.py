"""Dataclasses from files: known keys, right types, clear errors."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.validation import parse


@dataclass(frozen=True)
class Inner:
    size: int = 3
    kind: Literal["a", "b"] = "a"
    span: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.size < 0:
            raise InvalidArgument("size", expected="0 or more", got="less", fix="raise it")


@dataclass(frozen=True)
class Outer:
    name: str = ""
    inner: Inner = field(default_factory=Inner)


def test_an_error_carries_its_remedy_and_what_was_expected_and_what_came():
    error = InvalidArgument("k", expected="at least 1", got="0", fix="ask for one hit")
    assert (error.problem, error.fix) == ("k: expected at least 1, got 0", "ask for one hit")
    assert str(error) == "k: expected at least 1, got 0\n  fix: ask for one hit"
    assert isinstance(error, SurefindError) and isinstance(error, ValueError)


def test_values_land_where_they_belong():
    values = {"name": "x", "inner": {"size": 5, "span": [1, 2]}}
    assert parse(Outer, values, where="f") == Outer("x", Inner(5, "a", (1.0, 2.0)))
    assert parse(Outer, {}, where="f") == Outer()


@pytest.mark.parametrize(
    ("values", "problem", "fix"),
    [
        ({"nam": 1}, "f: unknown key 'nam'", "did you mean 'name'?"),
        ({"inner": {"sise": 1}}, "f: unknown key 'inner.sise'", "did you mean 'size'?"),
        ({"zzz": 1}, "f: unknown key 'zzz'", "known: inner, name"),
        ({"inner": 3}, "inner is a table", "[inner]"),
        ({"inner": {"size": "many"}}, "f: inner.size: Input", None),
        ({"inner": {"size": 1.5}}, "inner.size", None),
        ({"inner": {"kind": "c"}}, "inner.kind", None),
        ({"inner": {"size": -1}}, "size: expected 0 or more", "raise it"),
    ],
)
def test_what_does_not_fit_is_refused(values: dict[str, object], problem: str, fix: str | None):
    with pytest.raises(InvalidFile) as caught:
        parse(Outer, values, where="f")
    assert problem in caught.value.problem
    assert fix is None or fix in caught.value.fix
