"""A figure as a file or as text inside a page; the same figure gives the same bytes."""

import hashlib
import io
import re
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from surefind.errors import InvalidFile
from surefind.files import write_whole

ENDINGS = (".png", ".svg", ".pdf")
_DPI = 130
_NO_DATE = {
    ".png": {},
    ".svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    ".pdf": {"CreationDate": None},
}
_TEXT_STAYS_TEXT: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "surefind",
    "font.sans-serif": ["DejaVu Sans"],  # in the file: 'DejaVu Sans', sans-serif
}
_RULE = "stroke-linejoin: round; stroke-linecap: butt"  # matplotlib's, for all of its elements


def check_ending(path: Path) -> None:
    """Refuse a file that cannot be drawn, before the work and not after it."""
    if path.suffix not in ENDINGS:
        raise InvalidFile(f"cannot draw {path}", fix="name a .png, .svg or .pdf file")


def save(figure: Figure, path: Path) -> None:
    """Write the figure as its ending says: PNG, SVG or PDF."""
    check_ending(path)
    write_whole(path, _content(figure, path.suffix), fix="choose a writable folder")


def to_svg(figure: Figure) -> str:
    """An <svg> element for a page that may hold many: no id and no style reaches the others."""
    text = _content(figure, ".svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    text = text.replace("<svg ", f'<svg role="img" style="{_RULE}" ', 1)
    return _with_own_ids(text)


def _content(figure: Figure, ending: str) -> bytes:
    file = io.BytesIO()
    with rc_context(_TEXT_STAYS_TEXT):
        figure.savefig(file, format=ending[1:], dpi=_DPI, metadata=_NO_DATE[ending])
    return file.getvalue()


def _with_own_ids(text: str) -> str:
    """Ids begin with a hash of the figure, so only equal figures share them."""
    own = "f" + hashlib.sha256(text.encode()).hexdigest()[:10]
    text = re.sub(r'\bid="', f'id="{own}-', text)
    return re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{own}-", text)
