"""The names of images in URLs: an id written so that no path can be made of it."""

import base64
import re

from surefind.engines.engine import LONGEST_ID

_LONGEST_ITEM = (4 * LONGEST_ID + 2) // 3  # characters
_ITEM = re.compile(rf"[A-Za-z0-9_-]{{2,{_LONGEST_ITEM}}}", re.ASCII)


def item_of(id: str) -> str:  # noqa: A002 - the word of the house
    """Base64url of the id's UTF-8, without padding.

    >>> item_of("a/b.png")
    'YS9iLnBuZw'
    """
    return base64.urlsafe_b64encode(id.encode()).rstrip(b"=").decode()


def id_of(item: str) -> str | None:
    """The id that an item is the name of; none where `item_of` writes no such text.

    >>> id_of("YS9iLnBuZw")
    'a/b.png'
    """
    if not _ITEM.fullmatch(item):
        return None
    try:
        name = base64.urlsafe_b64decode(item + "=" * (-len(item) % 4)).decode()
    except ValueError:  # not base64 after all, or not UTF-8
        return None
    proper = "\0" not in name and item_of(name) == item  # one item an id: the last bits may differ
    return name if proper else None
