"""Data sets: folders, tables and named benchmarks, as catalogs to train, validate and test on."""

from surefind.datasets.registry import open_dataset, read_catalog, read_foreign
from surefind.datasets.splits import Splits
from surefind.datasets.table import is_frame

__all__ = ["Splits", "is_frame", "open_dataset", "read_catalog", "read_foreign"]
