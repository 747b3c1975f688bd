"""faiss, whose own types leave out half of it."""

from typing import Any

import faiss as _faiss

faiss: Any = _faiss
