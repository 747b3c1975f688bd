"""Vector stores: a folder (faiss over SQLite), PostgreSQL with pgvector, Milvus.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from surefind._lazy import lazy_exports

if TYPE_CHECKING:
    from surefind.engines.base import Engine, EngineError, Rows, Space
    from surefind.engines.filters import Condition, Where
    from surefind.engines.registry import create_engine, open_engine

_HOME = {
    "Condition": "filters",
    "Engine": "base",
    "EngineError": "base",
    "Rows": "base",
    "Space": "base",
    "Where": "filters",
    "create_engine": "registry",
    "open_engine": "registry",
}

__all__ = ["Condition", "Engine", "EngineError", "Rows", "Space", "Where", "create_engine", "open_engine"]

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
