"""Search filters: conditions on metadata and on the variance.

A row that lacks a field, or has a value of another kind there, satisfies no condition on it. If no
row has such a value, the condition is an error.
"""

import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from surefind.errors import InvalidArgument
from surefind.validation import check_choice, nearest

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
_WRITTEN = re.compile(rf"\s*({NAME.pattern})\s*(!=|<=|>=|=|<|>|\bin\b)\s*([^\s=<>!].*?)\s*", re.DOTALL)
_JOINED = re.compile(rf"(?i:\b(or|and)\s|\|\||&&)\s*{NAME.pattern}\s*([!<>=]|in\b)")
_ANY: dict[str, tuple[str, Any]] = {  # conditions that every value of a type satisfies
    "string": (">=", ""),
    "number": (">=", -sys.float_info.max),
    "bool": ("in", (True, False)),
}


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
        return kind(self.values[0])

    def holds(self, metadata: Metadata, var: float) -> bool:
        found = var if self.field == VAR else metadata.get(self.field)
        if found is None or kind(found) != self.kind:
            return False
        return COMPARE[self.op](found, self.value)

    def _unfit(self, expected: str) -> InvalidArgument:
        return InvalidArgument(f"condition on {self.field!r}", expected=expected, got=f"{self.op} {self.value!r}")


@dataclass(frozen=True)
class Where:
    """Conditions, all of which a row must satisfy."""

    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, written: str | Iterable[str] | Mapping[str, Any]) -> "Where":
        """Parse texts such as `label=cat`, `year >= 2020`, `var<0.1`, `label in cat,dog`.

        Args:
            written: one condition, or several that must all hold; numbers, true and false are
                recognised, quotes make a text. Or fields with a value, a list of values, or a pair
                of comparison and value: `{"label": "cat", "year": (">=", 2020)}`.

        Returns:
            All of them together.

        Raises:
            InvalidArgument: if a text is not FIELD OP VALUE, or a value cannot be compared.

        >>> Where.parse(["year >= 2020", 'label = "7"']).conditions[1]
        Condition(field='label', op='=', value='7')
        """
        if isinstance(written, Mapping):
            return cls(tuple(_pair(name, value) for name, value in written.items()))
        return cls(tuple(map(_read, [written] if isinstance(written, str) else written)))

    def holds(self, metadata: Metadata, var: float) -> bool:
        return all(condition.holds(metadata, var) for condition in self.conditions)


def check_fields(where: Where, found: Callable[[Where], bool], fields: Callable[[], Iterable[str]]) -> None:
    """Raise InvalidArgument if no row has a value of the right type in one of the fields.

    Engines call it if nothing satisfies `where`, with functions that tell whether a row satisfies conditions, and
    the names of all fields.
    """
    for condition in where.conditions:
        name, wanted = condition.field, condition.kind
        if name == VAR or found(Where((any_value(name, wanted),))):
            continue
        there = sorted({*fields(), VAR})
        types = [kind for kind in _ANY if kind != wanted and found(Where((any_value(name, kind),)))]
        if name in there and types:
            quoted = ", such as " + f'{name}="{condition.values[0]}"' if "string" in types else ""
            raise InvalidArgument(
                f"condition on {name!r}",
                expected=f"a {' or '.join(types)}{quoted}",
                got=f"the {wanted} {condition.values[0]!r}",
            )
        near = nearest(name, there)
        raise InvalidArgument(
            "where",
            expected=f"fields that there are: {', '.join(there)}",
            got=repr(name),
            fix=f"did you mean {near!r}?" if near else None,
        )


def any_value(name: str, kind: str) -> Condition:
    """Return the condition that every value of a type satisfies."""
    return Condition(name, *_ANY[kind])


def kind(value: Value) -> str:
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def check_name(name: object) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidArgument("field", expected="a name of letters, digits and _, at most 64", got=repr(name))


def check_value(name: str, value: object) -> None:
    """Raise InvalidArgument if not every engine can store and compare the value."""
    if isinstance(value, str) and STORABLE.fullmatch(value):
        return
    if isinstance(value, int) and abs(value) < 2**53:
        return
    if isinstance(value, float) and math.isfinite(value):
        return
    raise InvalidArgument(name, expected="a text, a finite number, true or false", got=repr(value))


def _read(written: object) -> Condition:
    found = _WRITTEN.fullmatch(written) if isinstance(written, str) else None
    if found is None:
        raise InvalidArgument(
            "where",
            expected="FIELD OP VALUE with one of " + " ".join(COMPARE),
            got=repr(written),
            fix="e.g. label=cat, year>=2020, var<0.1, label in cat,dog",
        )
    name, op, right = found.groups()
    quoted = right[0] in "\"'" and right.find(right[0], 1) == len(right) - 1
    if not quoted and _JOINED.search(right):
        raise InvalidArgument(
            "where",
            expected="one condition",
            got=repr(written),
            fix="several conditions must all hold; instead of 'or' write label in cat,dog; "
            "quote a text with these words",
        )
    several = tuple(_value(part.strip()) for part in right.split(","))
    return Condition(name, op, several if op == "in" else _value(right))


def _pair(name: str, value: Any) -> Condition:
    op, value = value if isinstance(value, tuple) and len(value) == 2 else ("=", value)
    if isinstance(value, list | tuple | set | frozenset) and op in ("=", "in"):
        op, value = "in", tuple(value)
    return Condition(name, op, value)


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
