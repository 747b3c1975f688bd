"""Training and evaluation mode of modules, set for a while and put back as they were."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(module: nn.Module, *, but: Collection[nn.Module] = ()) -> Iterator[None]:
    """Evaluation mode inside, except for the modules `but`; every mode is restored afterwards."""
    before = [(part, part.training) for part in module.modules()]
    try:
        for part, _ in before:
            part.training = part in but
        yield
    finally:
        for part, mode in before:
            part.training = mode
