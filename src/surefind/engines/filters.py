"""Search filters: conditions on metadata and on the variance.

A row that lacks a field, or has a value of another kind there, satisfies no condition on it.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from surefind.errors import InvalidArgument
from surefind.validation import check_choice

Value = str | int | float | bool
Metadata = Mapping[str, Value]

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda found, values: found in values,
}
STORABLE = re.compile("[^\\0\ud800-\udfff]*", re.DOTALL)  # texts that every engine can store
VAR = "var"  # the field that every row has: its variance, 1/kappa on the sphere
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_WRITTEN = re.compile(rf"\s*({NAME.pattern})\s*(!=|<=|>=|=|<|>|\bin\b)\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """Comparison of one field with a value; `in` compares with several.

    Args:
        field: name of the metadata field, or "var".
        op: one of = != < <= > >= in.
        value: text, number or bool; a tuple of them with "in".

    Raises:
        InvalidArgument: if not every engine could answer it.
    """

    field: str
    op: str
    value: Value | tuple[Value, ...]

    def __post_init__(self) -> None:
        check_name(self.field)
        check_choice("op", self.op, tuple(COMPARE))
        if (self.op == "in") != isinstance(self.value, tuple) or self.value == ():
            raise InvalidArgument(
                "value",
                expected="some values with 'in', a single one with other comparisons",
                got=f"{self.op} {self.value!r}",
                fix="write Condition('label', 'in', ('a', 'b'))",
            )
        for value in self.values:
            check_value(self.field, value)
        if len({kind(value) for value in self.values}) > 1:
            raise self._unfit("values of one kind")
        if kind(self.values[0]) == "bool" and self.op not in ("=", "!=", "in"):
            raise self._unfit("= or != with true and false")
        if self.field == VAR and kind(self.values[0]) != "number":
            raise self._unfit("a number")

    @property
    def values(self) -> tuple[Value, ...]:
        return self.value if isinstance(self.value, tuple) else (self.value,)

    @property
    def kind(self) -> str:
        """Type of the value: string, number or bool."""
        return kind(self.values[0])

    def holds(self, metadata: Metadata, var: float) -> bool:
        found = var if self.field == VAR else metadata.get(self.field)
        if found is None or kind(found) != self.kind:
            return False
        return COMPARE[self.op](found, self.value)

    def _unfit(self, expected: str) -> InvalidArgument:
        return InvalidArgument(
            f"condition on {self.field!r}", expected=expected, got=f"{self.op} {self.value!r}"
        )


@dataclass(frozen=True)
class Where:
    """Conjunction of conditions.

    Args:
        conditions: all of which a row must satisfy.
    """

    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, written: Iterable[str]) -> "Where":
        """Parse texts such as `label=cat`, `year >= 2020`, `var<0.1`, `label in cat,dog`.

        Args:
            written: one condition each; numbers, true and false are recognised, quotes make a text.

        Returns:
            All of them together.

        Raises:
            InvalidArgument: if a text is not FIELD OP VALUE.

        >>> Where.parse(["year >= 2020", 'label = "7"']).conditions[1]
        Condition(field='label', op='=', value='7')
        """
        conditions = []
        for text in written:
            found = _WRITTEN.fullmatch(text)
            if found is None or not found[3]:
                raise InvalidArgument(
                    "where",
                    expected="FIELD OP VALUE with one of " + " ".join(COMPARE),
                    got=repr(text),
                    fix="e.g. label=cat, year>=2020, var<0.1, label in cat,dog",
                )
            name, op, right = found.groups()
            several = tuple(_value(part.strip()) for part in right.split(","))
            conditions.append(Condition(name, op, several if op == "in" else _value(right)))
        return cls(tuple(conditions))

    def holds(self, metadata: Metadata, var: float) -> bool:
        return all(condition.holds(metadata, var) for condition in self.conditions)


def kind(value: Value) -> str:
    """Return the type of a value: string, number or bool."""
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def check_name(name: object) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidArgument(
            "field", expected="a name of letters, digits and _, at most 64", got=repr(name)
        )


def check_value(name: str, value: object) -> None:
    """Raise InvalidArgument if not every engine can store and compare the value."""
    if isinstance(value, str) and STORABLE.fullmatch(value):
        return
    if isinstance(value, int) and abs(value) < 2**53:
        return
    if isinstance(value, float) and math.isfinite(value):
        return
    raise InvalidArgument(name, expected="a text, a finite number, true or false", got=repr(value))


def _value(written: str) -> Value:
    if len(written) > 1 and written[0] == written[-1] and written[0] in "\"'":
        return written[1:-1]
    if written in ("true", "false"):
        return written == "true"
    for number in (int, float):
        try:
            return number(written)
        except ValueError:
            continue
    return written
