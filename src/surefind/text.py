"""Untrusted text, such as file names, made safe for a terminal."""

from unicodedata import category

# Unicode categories of control, format, surrogate and line separator characters.
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
JOINERS = "\u200c\u200d"  # format characters inside words and emoji
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    r"""Replace control and invisible characters; the result is one line.

    >>> printable("a\x1b[31m.jpg")
    'a�[31m.jpg'
    """
    return "".join(REPLACEMENT if category(char) in HIDDEN and char not in JOINERS else char for char in text)


def printable_lines(text: str) -> str:
    """Apply `printable` to each line."""
    return "\n".join(map(printable, text.split("\n")))
