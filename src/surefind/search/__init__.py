"""Index of images: add, search, calibrate."""

from typing import TYPE_CHECKING

from surefind._lazy import lazy_exports

if TYPE_CHECKING:
    from surefind.search.hits import Hit, SearchResult, results_to_pandas
    from surefind.search.index import Index

_HOME = {"Hit": "hits", "Index": "index", "SearchResult": "hits", "results_to_pandas": "hits"}

__all__ = ["Hit", "Index", "SearchResult", "results_to_pandas"]

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
