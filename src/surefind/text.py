"""Untrusted text, such as file names, made safe for a terminal; short texts of objects."""

from collections.abc import Iterable, Mapping
from html import escape
from unicodedata import category

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, format, surrogate and line separator characters
JOINERS = "\u200c\u200d"  # format characters inside words and emoji
LONGEST = 60  # characters of one value of a summary


def printable(text: str) -> str:
    r"""Replace control and invisible characters; the result is one line.

    >>> printable("a\x1b[31m.jpg")
    'a�[31m.jpg'
    """
    return "".join("�" if category(char) in HIDDEN and char not in JOINERS else char for char in text)


def printable_lines(text: str) -> str:
    """Apply `printable` to each line."""
    return "\n".join(map(printable, text.split("\n")))


class Summary:
    """Base of classes with a short `repr` and a small table in notebooks, of what `_facts` says."""

    def _facts(self) -> Mapping[str, object]:
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={shorten(value)}" for name, value in self._facts().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        return f"<b>{escape(type(self).__name__)}</b>{html_table(self._facts().items())}"


def shorten(value: object) -> str:
    """A float with four digits, anything else as it is; at most 60 characters."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def html_table(rows: Iterable[Iterable[object]]) -> str:
    cells = ("".join(f"<td>{escape(shorten(value))}</td>" for value in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
