"""Image search that tells you when to trust it.

Names are loaded when they are first used, so that `import surefind` costs nothing.
"""

from surefind._lazy import lazy_exports

TYPE_CHECKING = False  # that of `typing` takes longer to import than all of this
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
    "CalibrationTargets": "confidence.calibrate",
    "Embeddings": "embeddings",
    "Encoder": "encoders.encoder",
    "EncoderConfig": "encoders.config",
    "Gaussians": "embeddings",
    "Hit": "search.hits",
    "ImageRejected": "images.decode",
    "Index": "search.index",
    "InvalidArgument": "errors",
    "InvalidFile": "errors",
    "Recipe": "training.recipe",
    "SearchResult": "search.hits",
    "SurefindError": "errors",
    "Upgrade": "vectors.upgrade",
    "VonMisesFisher": "embeddings",
    "calibrate": "vectors.upgrade",
    "encoders": "",
    "functional": "",
    "losses": "",
    "metrics": "",
    "open_dataset": "datasets",
    "train": "training.trainer",
}

__all__ = [
    "CalibrationTargets", "Embeddings", "Encoder", "EncoderConfig", "Gaussians", "Hit", "ImageRejected", "Index",
    "InvalidArgument", "InvalidFile", "Recipe", "SearchResult", "SurefindError", "Upgrade", "VonMisesFisher",
    "calibrate", "encoders", "functional", "losses", "metrics", "open_dataset", "train",
]  # fmt: skip

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
