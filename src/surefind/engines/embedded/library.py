"""faiss, whose own types leave out half of it, told to multiply matrices where that is quicker."""

from typing import Any

import faiss as _faiss

faiss: Any = _faiss

# faiss 1.15 compares vectors one by one while queries x dimensions < 128,000; for 100 queries of
# 513 dimensions in 100,000 rows a matrix product takes a tenth of the time. (Older releases count
# queries here, from 20 on, which is well chosen.)
MULTIPLIED_FROM = 2_048
if faiss.cvar.distance_compute_blas_threshold > MULTIPLIED_FROM:
    faiss.cvar.distance_compute_blas_threshold = MULTIPLIED_FROM
