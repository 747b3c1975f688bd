"""Worker threads that each keep to one core."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch

_PATIENCE = 60  # seconds for threads to start


def single_core_pool(workers: int) -> ThreadPoolExecutor:
    """A pool in which an operation of torch uses no further threads.

    torch keeps that setting per thread, but a new thread anywhere starts from the last one made:
    so all workers make theirs first, and then the caller repeats its own.
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="surefind-encode")
    ready = Barrier(workers + 1, timeout=_PATIENCE)

    def keep_to_one_core() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # a thread adopts the latest setting of all when it first asks
        ready.wait()

    own = torch.get_num_threads()
    for _ in range(workers):
        pool.submit(keep_to_one_core)
    ready.wait()
    torch.set_num_threads(own)
    return pool
