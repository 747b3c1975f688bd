"""Values that are computed when they are first used."""

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """Thread-safe value that is computed once, when first used. Failures are not kept.

    >>> made = Lazy(lambda: [])
    >>> made.get() is made.get()
    True
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._made: tuple[T, ...] = ()
        self._lock = Lock()

    def get(self) -> T:
        with self._lock:
            if self._make is not None:
                self._made = (self._make(),)
                self._make = None  # with all that it holds on to
        return self._made[0]
