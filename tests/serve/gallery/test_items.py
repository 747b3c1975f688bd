"""Names of images in URLs: every id has one, and nothing else is one."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefind.engines.engine import LONGEST_ID
from surefind.serve.gallery.items import id_of, item_of

IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
PROPER = IDS.filter(lambda name: len(name.encode()) <= LONGEST_ID)
ITEM_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@given(PROPER)
def test_every_id_comes_back(name: str):
    assert id_of(item_of(name)) == name


@given(PROPER)
def test_an_item_is_one_plain_step_of_a_url(name: str):
    assert set(item_of(name)) <= set(ITEM_LETTERS)


@given(st.text() | st.text(ITEM_LETTERS))
def test_whatever_is_taken_is_exactly_what_would_be_written(item: str):
    name = id_of(item)
    assert name is None or item_of(name) == item


@given(PROPER)
def test_no_other_spelling_of_an_item_is_taken(name: str):
    item = item_of(name)
    for letter in ITEM_LETTERS:
        if letter != item[-1]:
            assert id_of(item[:-1] + letter) != name
    for spelled in (item + "=", item + "==", item + "\n", " " + item, item + "A"):
        assert id_of(spelled) != name


def test_the_longest_id_has_an_item_and_a_longer_one_has_none():
    assert id_of(item_of("x" * LONGEST_ID)) == "x" * LONGEST_ID
    assert id_of(item_of("x" * (LONGEST_ID + 1))) is None


@pytest.mark.parametrize(
    "item",
    [
        "",
        "A",
        "..",
        "../../etc/passwd",
        "%2e%2e",
        "YS9iLnBuZw==",
        "YS9iLnBuZx",  # the same bytes, with other bits after them
        "YS+/",
        "YQ\0",
        "\u00e4\u00e4",
        "\ud800",
        encoded(b"\0"),
        encoded(b"a\0b"),
        encoded(b"\xff\xfe"),
        encoded(b"\xc0\xaf"),  # a slash in too many bytes
        encoded(b"\xed\xa0\x80"),  # half a surrogate pair
        "A" * 10**6,
    ],
)
def test_what_is_no_item_is_none(item: str):
    assert id_of(item) is None
