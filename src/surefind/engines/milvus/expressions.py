"""Conditions and ids as Milvus writes them.

Tried on Milvus 2.3: it has `!=` hold for rows that lack the field or have another kind of value
there, and refuses lists of whole and other numbers; comparisons of order and equality between
numbers, texts and truth values mean what `Condition.holds` means.
"""

import json
from collections.abc import Iterable, Iterator

from surefind.engines.engine import LONGEST_ID
from surefind.engines.where import VAR, Condition, Value, Where

EVERYTHING = 'id > ""'  # no id is empty
IDS_AT_ONCE = 4096
BYTES_AT_ONCE = 1_000_000  # of an expression; larger ones take the server seconds to parse


def expression(where: Where | None) -> str:
    """What holds for just the rows that satisfy `where`."""
    conditions = [] if where is None else [_condition(one) for one in where.conditions]
    return " and ".join([EVERYTHING, *conditions])


def after(last: str, where: Where | None) -> str:
    """The rows with greater ids, by code point."""
    return f"id > {literal(last)} and {expression(where)}"


def among(field: str, values: Iterable[str]) -> str:
    return f"{field} in [{', '.join(map(literal, values))}]"


def portions(texts: Iterable[str], at_most: int = IDS_AT_ONCE) -> Iterator[list[str]]:
    """Each text once, in lists that make expressions of a moderate size.

    What can be no id and no digest is left out: to the server it would be an error.
    """
    some: list[str] = []
    size = 0
    for text in dict.fromkeys(texts):
        if not _possible(text):
            continue
        size += len(text.encode())
        if some and (len(some) == at_most or size > BYTES_AT_ONCE):
            yield some
            some, size = [], len(text.encode())
        some.append(text)
    if some:
        yield some


def literal(value: Value) -> str:
    """Texts are quoted as in JSON, whose escapes Milvus reads; numbers lose no digit."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(float(value))


def _condition(condition: Condition) -> str:
    field = VAR if condition.field == VAR else f'metadata["{condition.field}"]'
    values = [literal(value) for value in condition.values]
    if condition.op == "in":
        return f"{field} in [{', '.join(values)}]"
    if condition.op == "=":
        return f"{field} == {values[0]}"
    if condition.op != "!=":
        return f"{field} {condition.op} {values[0]}"
    if condition.kind == "bool":
        return f"{field} == {literal(not condition.value)}"
    return f"({field} < {values[0]} or {field} > {values[0]})"


def _possible(text: str) -> bool:
    try:
        return 0 < len(text.encode()) <= LONGEST_ID and "\0" not in text
    except UnicodeEncodeError:
        return False
