"""Image retrieval that knows how sure it is.

Names are loaded when they are first used, so that `import surefind` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefind import functional, losses
    from surefind.embeddings import Embeddings, Gaussians, VonMisesFisher
    from surefind.errors import InvalidArgument, InvalidFile, SurefindError

__version__ = "0.1.0.dev0"

_HOME = {
    "Embeddings": "surefind.embeddings",
    "Gaussians": "surefind.embeddings",
    "InvalidArgument": "surefind.errors",
    "InvalidFile": "surefind.errors",
    "SurefindError": "surefind.errors",
    "VonMisesFisher": "surefind.embeddings",
    "functional": "surefind",
    "losses": "surefind",
}

__all__ = [
    "Embeddings",
    "Gaussians",
    "InvalidArgument",
    "InvalidFile",
    "SurefindError",
    "VonMisesFisher",
    "functional",
    "losses",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'surefind' has no attribute {name!r}")
    if home == "surefind":
        return import_module(f"surefind.{name}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
