"""What a built page links to, loads and offers as anchors."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
ONLY_NAMED = {"canonical", "prev", "next", "alternate", "edit"}  # relations of <link>


class Page(HTMLParser):
    """One HTML file."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given and given.get("rel") not in ONLY_NAMED:
            self.loads.append(given[LOADED[tag]])

    def target(self, link: str) -> tuple[Path, str] | None:
        """File and anchor of a link within the site."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            return None
        file = (self.file.parent / unquote(parts.path)).resolve() if parts.path else self.file
        return (file / "index.html" if file.is_dir() else file), unquote(parts.fragment)


def is_elsewhere(address: str) -> bool:
    """
    >>> is_elsewhere("https://example.com/font.css"), is_elsewhere("assets/main.css")
    (True, False)
    """
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")
