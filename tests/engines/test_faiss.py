"""faiss multiplies matrices with kernels for this processor, whatever its own OpenBLAS takes it for."""

import os
import subprocess
import sys

import pytest
import torch

SHOW = "import os; from surefind._faiss import _HINT; import threadpoolctl as t; print(os.environ.get(_HINT), *("
SHOW += "one['architecture'] for one in t.threadpool_info() if 'faiss' in one['filepath'] and 'architecture' in one))"


@pytest.mark.parametrize("asked", [None, "Nehalem"])
def test_kernels_fit_the_processor_unless_someone_chose_others(asked: str | None) -> None:
    pytest.importorskip("threadpoolctl")
    wanted = asked or {"AVX512": "SkylakeX", "AVX2": "Haswell"}.get(torch.backends.cpu.get_cpu_capability())
    if wanted is None:
        pytest.skip("no kernel is chosen for this processor")
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    if asked:
        environment["OPENBLAS_CORETYPE"] = asked
    done = subprocess.run([sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(asked), wanted]
