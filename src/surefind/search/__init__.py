"""Index of images: add, search, calibrate."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefind.search.hits import Hit, SearchResult
    from surefind.search.index import Index

_HOME = {"Hit": "hits", "Index": "index", "SearchResult": "hits"}

__all__ = ["Hit", "Index", "SearchResult"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
