"""The report of `surefind evaluate`, to be shown beside the page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from surefind.errors import InvalidFile
from surefind.reports.html.page import NAME

MOST_BYTES = 200 * 10**6


@dataclass(frozen=True)
class Report:
    """One file that needs nothing beside it, read once."""

    html: bytes

    @classmethod
    def read(cls, folder: Path) -> Self:
        """`report.html` of a folder."""
        path = folder / NAME
        make_one = f"make one: surefind evaluate MODEL DATA -o {folder}"
        try:
            with path.open("rb") as file:
                html = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            raise InvalidFile(
                f"{folder} holds no report: {NAME} is missing", fix=make_one
            ) from None
        except OSError as error:
            raise InvalidFile(
                f"{path} cannot be read: {error.strerror}",
                fix="name a folder that `surefind evaluate` made",
            ) from error
        if len(html) > MOST_BYTES:
            raise InvalidFile(f"{path} is too large: more than {MOST_BYTES:,} bytes", fix=make_one)
        return cls(html)
