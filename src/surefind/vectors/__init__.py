"""Calibrated confidence for existing vectors, of any model."""

from typing import TYPE_CHECKING

from surefind._lazy import lazy_exports

if TYPE_CHECKING:
    from surefind.vectors.reader import Vectors, read_vectors
    from surefind.vectors.upgrade import Upgrade

_HOME = {"Upgrade": "upgrade", "Vectors": "reader", "read_vectors": "reader"}

__all__ = ["Upgrade", "Vectors", "read_vectors"]

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
