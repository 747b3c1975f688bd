"""Text from outside, such as the name of a file, made fit for Markdown and for YAML."""

import json
import re
from collections.abc import Iterator, Mapping
from unicodedata import category

# Controls, formats that turn the order of what is read, half and unassigned characters, and
# separators that begin a line: YAML refuses some of them, readers are misled by others.
_HIDDEN = ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # parts of words and of emoji
_MARKS = re.compile(r"([\\`*_\[\]|~$#])")


def plain(text: object) -> str:
    """One line in which every character is seen."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if category(char) in _HIDDEN and char not in _JOINERS else char
        for char in str(text)
    )


def markdown(text: object) -> str:
    r"""Words that stay words, whatever marks are in them.

    >>> print(markdown("a|b <img src=x> *c*"))
    a\|b &lt;img src=x&gt; \*c\*
    """
    marked = _MARKS.sub(r"\\\1", plain(text).replace("&", "&amp;"))
    return marked.replace("<", "&lt;").replace(">", "&gt;")


def yaml(values: Mapping[str, object]) -> str:
    """Block YAML of maps, lists, texts and numbers; texts are quoted as in JSON.

    >>> print(yaml({"tags": ["a", "b: c"], "n": 3}))
    tags:
    - "a"
    - "b: c"
    n: 3
    """
    return "\n".join(_lines(values))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(inner, Mapping | list | tuple):
                yield f"{name}:"
                indent = "  " if isinstance(inner, Mapping) else ""
                yield from (indent + line for line in _lines(inner))
            else:
                yield f"{name}: {_scalar(inner)}"
    elif isinstance(value, list | tuple):
        for inner in value:
            first, *rest = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _scalar(value: object) -> str:
    return json.dumps(plain(value) if isinstance(value, str) else value, ensure_ascii=False)
