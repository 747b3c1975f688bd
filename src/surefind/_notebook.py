"""Short texts and tables of objects for the prompt and for notebooks."""

from collections.abc import Iterable, Mapping
from html import escape

_LONGEST = 60  # characters of one value


class Summary:
    """Base of classes with a short `repr` and a small table in notebooks, of what `_facts` says."""

    def _facts(self) -> Mapping[str, object]:
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={shorten(value)}" for name, value in self._facts().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        title = f"<b>{escape(type(self).__name__)}</b>"
        return title + table([(name, value) for name, value in self._facts().items()])


def shorten(value: object) -> str:
    """A float with four digits, anything else as it is; at most 60 characters."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def table(rows: Iterable[Iterable[object]]) -> str:
    """An HTML table."""
    cells = ("".join(f"<td>{escape(shorten(value))}</td>" for value in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
