"""Image search that tells you when to trust it.

Names are loaded when they are first used, so that `import surefind` costs nothing.
"""

from typing import TYPE_CHECKING

from surefind._lazy import lazy_exports

if TYPE_CHECKING:
    from surefind import encoders, functional, losses, metrics
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
    "Embeddings": "embeddings",
    "Encoder": "encoders.encoder",
    "EncoderConfig": "encoders.config",
    "ImageRejected": "images.decode",
    "Hit": "search.hits",
    "Index": "search.index",
    "Recipe": "training.recipe",
    "SearchResult": "search.hits",
    "Upgrade": "vectors.upgrade",
    "CalibrationTargets": "confidence.calibrate",
    "calibrate": "vectors.upgrade",
    "open_dataset": "datasets",
    "train": "training.trainer",
    "Gaussians": "embeddings",
    "InvalidArgument": "errors",
    "InvalidFile": "errors",
    "SurefindError": "errors",
    "VonMisesFisher": "embeddings",
    "encoders": "",
    "functional": "",
    "losses": "",
    "metrics": "",
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
    "encoders",
    "functional",
    "losses",
    "metrics",
    "open_dataset",
    "train",
]

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
