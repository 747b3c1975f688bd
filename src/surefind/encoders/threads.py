"""How many threads torch uses inside one operation, while many operations run side by side."""

import threading

import torch


class _OneThreadPerOperation:
    """torch's setting is one for the process: the first user saves it, the last restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 1

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._before = torch.get_num_threads()
                torch.set_num_threads(1)
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                torch.set_num_threads(self._before)


one_thread_per_operation = _OneThreadPerOperation()
