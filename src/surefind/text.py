"""Text from outside, such as the name of a file, made fit to be shown on a terminal."""

from unicodedata import category

from rich.cells import cell_len

# Controls can colour, move or clear the screen; formats can turn the order of what is read;
# half characters cannot be written at all; separators begin a line.
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
JOINERS = "\u200c\u200d"  # parts of words and of emoji
IN_ITS_PLACE = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    r"""One line in which every character is seen, and none does anything.

    >>> printable("a\x1b[31m.jpg")
    'a�[31m.jpg'
    """
    return "".join(
        IN_ITS_PLACE if category(char) in HIDDEN and char not in JOINERS else char for char in text
    )


def printable_lines(text: str) -> str:
    """The same for text of several lines."""
    return "\n".join(map(printable, text.split("\n")))


def shortened(text: str, width: int) -> str:
    """At most `width` cells of a terminal: the start and the end say most of a path.

    >>> shortened("holidays/2024/beach/0001.jpg", 15)
    'holiday…001.jpg'
    """
    if cell_len(text) <= width:
        return text
    start, end = "", ""
    for head, tail in zip(text, reversed(text), strict=True):
        if cell_len(f"{start}…{tail}{end}") > width:
            break
        end = tail + end
        if cell_len(f"{start}{head}…{end}") > width:
            break
        start += head
    return f"{start}…{end}"
