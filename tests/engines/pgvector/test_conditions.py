"""Conditions in SQL choose the same rows as `Where.holds`, whatever the metadata are."""

import itertools

import pytest
import torch

import surefind as sf
from surefind.engines.engine import Rows
from surefind.engines.opening import create_engine
from surefind.engines.pgvector.engine import PgvectorEngine
from surefind.engines.pgvector.queries import clause
from surefind.engines.space import Space
from surefind.engines.where import COMPARE, Condition, Value, Where

VALUES: tuple[Value, ...] = (
    *(0, 1, -1, 2**53 - 1, -(2**53) + 1),
    *(0.0, -0.0, 1.0, 0.1, 0.30000000000000004, 1e20, 1e-320, -1.5e300, 9007199254740993.0),
    *(True, False),
    *("", "1", "true", "a", "A", "B", "b", "ä", "Z", "zz", "a b", "1.0", "null", "{}", "[1]"),
    *("q\"uo'te", "back\\slash", "line\nbreak", "\t", "%s", "%(k)s", "\u200b", "é", "e\u0301"),
    *("😀", "\uffff", "'; DROP TABLE surefind; --", "{where}", "x" * 3000),
)
VARIANCES = (1e-12, 0.1, 0.5, 1.0, 3.0, 1e9)


@pytest.fixture(scope="module")
def gallery(server) -> Rows:
    metadata = [{"field": value} for value in VALUES]
    metadata += [{}, {"other": 1}, {"Field": "a"}, {"field": "a", "other": True}]
    count = len(metadata)
    var = torch.tensor([VARIANCES[row % len(VARIANCES)] for row in range(count)])
    ids = tuple(f"{row:03}" for row in range(count))
    return Rows(ids, sf.Gaussians(torch.zeros(count, 3), var), ("",) * count, tuple(metadata))


@pytest.fixture(scope="module")
def engine(server, gallery: Rows):
    engine = create_engine(server.fresh_url(), Space("gaussian", 3), {}, kind="flat")
    engine.add(gallery)
    yield engine
    engine.close()


def chosen(engine: PgvectorEngine, where: Where) -> set[str]:
    keys = [key for block in engine.scan(where) for key in block.keys]
    return set(engine.rows(keys).ids)


def expected(gallery: Rows, where: Where) -> set[str]:
    var = gallery.embeddings.spread.double().tolist()
    rows = zip(gallery.ids, gallery.metadata, var, strict=True)
    return {name for name, metadata, one in rows if where.holds(metadata, one)}


def conditions() -> list[Condition]:
    made = []
    for op, value in itertools.product(COMPARE, VALUES):
        ordering = op in ("<", "<=", ">", ">=")
        if not (ordering and isinstance(value, bool)):
            made.append(Condition("field", op, (value,) if op == "in" else value))
    return made


def test_the_grid_tells_conditions_apart(gallery: Rows):
    answers = {frozenset(expected(gallery, Where((one,)))) for one in conditions()}
    assert len(answers) > 100


@pytest.mark.parametrize("op", COMPARE)
def test_every_comparison_with_every_value_chooses_as_holds_does(op, engine, gallery):
    for condition in conditions():
        where = Where((condition,))
        if condition.op == op:
            assert chosen(engine, where) == expected(gallery, where), condition


@pytest.mark.parametrize("op", COMPARE)
@pytest.mark.parametrize("value", [*VARIANCES, 1, 0, 0.1000000001])
def test_conditions_on_the_variance_choose_as_holds_does(op, value, engine, gallery):
    where = Where((Condition("var", op, (value, 3) if op == "in" else value),))
    assert chosen(engine, where) == expected(gallery, where)


@pytest.mark.parametrize(
    "where",
    [
        Where(()),
        Where((Condition("field", "in", ("a", "B", "😀", "nothing")),)),
        Where((Condition("field", "in", (1, 0.1, 1e20)),)),
        Where((Condition("field", "in", (True, False)),)),
        Where((Condition("field", "=", "a"), Condition("other", "=", True))),
        Where((Condition("field", ">", 0), Condition("field", "<", 2), Condition("var", "<", 1))),
        Where((Condition("absent", "!=", 1),)),
        Where((Condition("field", "=", "a"), Condition("field", "=", "b"))),
    ],
)
def test_conditions_together_choose_as_holds_does(where, engine, gallery):
    assert chosen(engine, where) == expected(gallery, where)
    assert engine.count(where) == len(expected(gallery, where))


def test_values_never_become_part_of_the_statement():
    text = clause(Where((Condition("field", "<", "evil'"), Condition("fiend", "in", ("evil'",)))))
    statement = text.text.as_string()
    assert "evil" not in statement and "fie" not in statement.replace("fields", "")
    assert sum("evil" in str(value) for value in text.parameters.values()) == 2


def test_texts_are_ordered_by_code_point_whatever_the_language_of_the_database(engine, gallery):
    """Which other languages a machine has is not known here, so the statement is looked at."""
    text = clause(Where((Condition("field", "<", "a"),))).text.as_string()
    assert '->> %(value_2)s::text) COLLATE "C" < ' in text
    with engine._connections.borrowed() as connection:
        columns = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
            " AND collation_name = 'C'",
            [engine._place.table],
        ).fetchall()
    assert {("id",), ("digest",)} <= {*columns}
