"""faiss, with matrix products for this processor.

The OpenBLAS in faiss's wheel takes a processor that is newer than itself for one of 2004: without a
hint its products take five times as long.
"""

import os
from typing import Any

# As faiss's own loader does; torch would know too, but takes a second to load.
from numpy._core._multiarray_umath import __cpu_features__ as _features  # type: ignore[import-not-found]

_HINT, _KERNELS = "OPENBLAS_CORETYPE", {"SkylakeX": ("AVX512_SKX",), "Haswell": ("AVX2", "FMA3")}
_fitting = (name for name, needed in _KERNELS.items() if all(_features.get(one) for one in needed))
_kernel = None if _HINT in os.environ else next(_fitting, None)
if _kernel:
    os.environ[_HINT] = _kernel
import faiss as _faiss  # noqa: E402

if _kernel:
    del os.environ[_HINT]  # it is read once; other programs choose for themselves
faiss: Any = _faiss  # its own types leave out half of it
# By default faiss compares vectors one by one while queries x dimensions < 128,000; for 100 queries
# of 513 dimensions in 100,000 rows a matrix product takes a tenth of the time.
faiss.cvar.distance_compute_blas_threshold = 2_048
