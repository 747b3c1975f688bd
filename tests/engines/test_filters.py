"""Conditions: what they mean, how they are written, what is refused."""

import pytest

from surefind.engines.filters import Condition, Where
from surefind.errors import InvalidArgument


@pytest.mark.parametrize(
    ("written", "condition"),
    [
        ("label=cat", Condition("label", "=", "cat")),
        (" label != two words ", Condition("label", "!=", "two words")),
        ("year>=2020", Condition("year", ">=", 2020)),
        ("weight < 2.5", Condition("weight", "<", 2.5)),
        ("blurred = true", Condition("blurred", "=", True)),
        ("label = 'true'", Condition("label", "=", "true")),
        ('label = "a=b"', Condition("label", "=", "a=b")),
        ("label in cat, dog", Condition("label", "in", ("cat", "dog"))),
        ("index = 1", Condition("index", "=", 1)),
        ("var<=1e-3", Condition("var", "<=", 1e-3)),
    ],
)
def test_conditions_are_read_as_written(written, condition):
    assert Where.parse([written]).conditions == (condition,)


@pytest.mark.parametrize(
    ("given", "conditions"),
    [
        ("label=cat", [("label", "=", "cat")]),
        ({"label": "x", "price": (">=", 10)}, [("label", "=", "x"), ("price", ">=", 10)]),
        ({"label": ["a", "b"]}, [("label", "in", ("a", "b"))]),
        ({"label": ("in", ("a", "b"))}, [("label", "in", ("a", "b"))]),
        ({"label": "true", "blurred": True}, [("label", "=", "true"), ("blurred", "=", True)]),
    ],
)
def test_one_text_and_fields_with_values_are_conditions_too(given, conditions):
    assert Where.parse(given).conditions == tuple(Condition(*its) for its in conditions)


@pytest.mark.parametrize(
    "written", ["", "label", "label=", "=x", "a b = 1", "1a=2", "label ~ x", "year => 2020", "a == b", 7]
)
def test_what_is_no_condition_is_refused(written):
    with pytest.raises(InvalidArgument, match="where: expected FIELD OP VALUE"):
        Where.parse([written])


@pytest.mark.parametrize(
    "written", ["label=a or label=b", "year>1 AND year<9", 'a="x" || b="y"', "label = a or b in c"]
)
def test_several_conditions_in_one_text_are_refused(written):
    with pytest.raises(InvalidArgument, match="where: expected one condition"):
        Where.parse(written)


@pytest.mark.parametrize("written", ["salt or pepper", "'a or b=c'", '"a or b=c"', "or"])
def test_a_text_may_hold_the_words_of_a_conjunction(written):
    assert Where.parse(f"label = {written}").conditions[0].value == written.strip("'\"")


@pytest.mark.parametrize(
    ("field", "op", "value"),
    [
        ("x", "like", "a"),
        ("x", "in", "a"),
        ("x", "in", ()),
        ("x", "=", ("a",)),
        ("x", "in", ("a", 1)),
        ("x", "<", True),
        ("var", "=", "small"),
        ("x", "=", float("nan")),
        ("x", "=", 2**60),
        ("x", "=", "a\0b"),
        ("x", "=", "\ud800"),
        ("x; drop", "=", 1),
        ("x", "=", None),
    ],
)
def test_conditions_that_not_every_engine_could_answer_are_refused(field, op, value):
    with pytest.raises(InvalidArgument):
        Condition(field, op, value)


@pytest.mark.parametrize("op", ["=", "!=", "<", ">="])
def test_a_missing_field_or_another_kind_satisfies_nothing(op):
    condition = Condition("year", op, 2020)
    assert not condition.holds({}, 1.0)
    assert not condition.holds({"year": "2020"}, 1.0)
    assert not Condition("flag", "=", 1).holds({"flag": True}, 1.0)


def test_a_whole_number_equals_the_real_one():
    assert Condition("year", "=", 2020.0).holds({"year": 2020}, 1.0)
