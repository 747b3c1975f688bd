"""Calibrated confidence for existing vectors, of any model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefind.vectors.reader import Vectors, read_vectors
    from surefind.vectors.upgrade import Upgrade

_HOME = {"Upgrade": "upgrade", "Vectors": "reader", "read_vectors": "reader"}

__all__ = ["Upgrade", "Vectors", "read_vectors"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
