"""Image retrieval that knows how sure it is.

Names are loaded when they are first used, so that `import surefind` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefind import functional, losses, metrics
    from surefind.confidence.calibrate import CalibrationTargets
    from surefind.datasets import open_dataset
    from surefind.embeddings import Embeddings, Gaussians, VonMisesFisher
    from surefind.encoders.config import EncoderConfig
    from surefind.encoders.encoder import Encoder
    from surefind.errors import InvalidArgument, InvalidFile, SurefindError
    from surefind.images.decode import ImageRejected
    from surefind.search.hits import Hit, SearchResult
    from surefind.search.index import Index
    from surefind.training.recipe import Recipe
    from surefind.training.trainer import train
    from surefind.vectors.upgrade import Upgrade, calibrate

__version__ = "0.1.0"

_HOME = {
    "Embeddings": "surefind.embeddings",
    "Encoder": "surefind.encoders.encoder",
    "EncoderConfig": "surefind.encoders.config",
    "ImageRejected": "surefind.images.decode",
    "Hit": "surefind.search.hits",
    "Index": "surefind.search.index",
    "Recipe": "surefind.training.recipe",
    "SearchResult": "surefind.search.hits",
    "Upgrade": "surefind.vectors.upgrade",
    "CalibrationTargets": "surefind.confidence.calibrate",
    "calibrate": "surefind.vectors.upgrade",
    "open_dataset": "surefind.datasets",
    "train": "surefind.training.trainer",
    "Gaussians": "surefind.embeddings",
    "InvalidArgument": "surefind.errors",
    "InvalidFile": "surefind.errors",
    "SurefindError": "surefind.errors",
    "VonMisesFisher": "surefind.embeddings",
    "functional": "surefind",
    "losses": "surefind",
    "metrics": "surefind",
}

__all__ = [
    "CalibrationTargets",
    "Embeddings",
    "Encoder",
    "EncoderConfig",
    "Gaussians",
    "Hit",
    "ImageRejected",
    "Index",
    "InvalidArgument",
    "InvalidFile",
    "Recipe",
    "SearchResult",
    "SurefindError",
    "Upgrade",
    "VonMisesFisher",
    "calibrate",
    "functional",
    "losses",
    "metrics",
    "open_dataset",
    "train",
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
