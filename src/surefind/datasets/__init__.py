"""Data sets: folders, tables and named benchmarks, as catalogs to train, validate and test on."""

from surefind.datasets.registry import open_dataset, read_catalog, read_foreign
from surefind.datasets.splits import Splits

__all__ = ["Splits", "open_dataset", "read_catalog", "read_foreign"]
