"""faiss, with matrix products for this processor.

The OpenBLAS in faiss's wheel takes a processor that is newer than itself for one of 2004: without a
hint its products take five times as long.
"""

import os
from typing import Any

import torch

_HINT, _KERNELS = "OPENBLAS_CORETYPE", {"AVX512": "SkylakeX", "AVX2": "Haswell"}
_kernel = None if _HINT in os.environ else _KERNELS.get(torch.backends.cpu.get_cpu_capability())
if _kernel:
    os.environ[_HINT] = _kernel
import faiss as _faiss  # noqa: E402

if _kernel:
    del os.environ[_HINT]  # it is read once; other programs choose for themselves
faiss: Any = _faiss  # its own types leave out half of it
# By default faiss compares vectors one by one while queries x dimensions < 128,000; for 100 queries
# of 513 dimensions in 100,000 rows a matrix product takes a tenth of the time.
faiss.cvar.distance_compute_blas_threshold = 2_048
