"""Conditions on rows as SQL: the same rows as `Where.holds`, and only parameters for values.

Nothing is cast to a type that it might not have: jsonb is compared as jsonb, texts by code point.
"""

import json
from typing import Any, NamedTuple

from surefind.engines.pgvector.driver import SQL, Composable, Composed, Placeholder
from surefind.engines.where import VAR, Condition, Value, Where

KINDS = {"string": "string", "number": "number", "bool": "boolean"}  # as jsonb calls them
COMPARISONS: dict[str, Composable] = {
    "=": SQL("="),
    "!=": SQL("<>"),
    "<": SQL("<"),
    "<=": SQL("<="),
    ">": SQL(">"),
    ">=": SQL(">="),
}


class Clause(NamedTuple):
    """What stands behind WHERE, and its named parameters."""

    text: Composable
    parameters: dict[str, Any]


def clause(where: Where | None) -> Clause:
    parameters: dict[str, Any] = {}
    tests = [_test(one, parameters) for one in (where.conditions if where else ())]
    return Clause(SQL(" AND ").join(tests) if tests else SQL("true"), parameters)


def storable(text: str) -> bool:
    """PostgreSQL keeps UTF-8 without the character 0; half a surrogate pair is not UTF-8."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _test(condition: Condition, parameters: dict[str, Any]) -> Composable:
    if condition.field == VAR:
        return _test_of_var(condition, parameters)
    if condition.op in ("=", "in"):
        same = [_contains(condition.field, value, parameters) for value in condition.values]
        return SQL("({})").format(SQL(" OR ").join(same))
    found = SQL("fields -> {}::text").format(_placed(condition.field, parameters))
    like = SQL("jsonb_typeof({}) = {}").format(found, _placed(KINDS[condition.kind], parameters))
    return SQL("({} AND {})").format(like, _compared(condition, found, parameters))


def _compared(condition: Condition, found: Composed, parameters: dict[str, Any]) -> Composable:
    """Of a field whose value is known to be of the condition's kind."""
    (value,) = condition.values
    if condition.op == "!=":
        return SQL("NOT {}").format(_contains(condition.field, value, parameters))
    if isinstance(value, str):
        field, wanted = _placed(condition.field, parameters), _placed(value, parameters)
        text = SQL('(fields ->> {}::text) COLLATE "C"').format(field)
        return SQL("{} {} {}::text").format(text, COMPARISONS[condition.op], wanted)
    number = _placed(json.dumps(value), parameters)
    return SQL("({}) {} {}::jsonb").format(found, COMPARISONS[condition.op], number)


def _contains(field: str, value: Value, parameters: dict[str, Any]) -> Composable:
    """Equality that the GIN index knows; 1 equals 1.0, true does not equal 1."""
    return SQL("fields @> {}::jsonb").format(_placed(json.dumps({field: value}), parameters))


def _test_of_var(condition: Condition, parameters: dict[str, Any]) -> Composable:
    values = [float(value) for value in condition.values]
    if condition.op == "in":
        return SQL("var = ANY({}::float8[])").format(_placed(values, parameters))
    wanted = _placed(values[0], parameters)
    return SQL("var {} {}::float8").format(COMPARISONS[condition.op], wanted)


def _placed(value: object, parameters: dict[str, Any]) -> Placeholder:
    name = f"value_{len(parameters)}"
    parameters[name] = value
    return Placeholder(name)
