"""Distributed training: rank and size of this process under torchrun, and collectives."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import nn

from surefind.embeddings import Embeddings

T = TypeVar("T")
Scalar = TypeVar("Scalar", bound=np.generic)


def own_device() -> str:
    """Return the GPU of this process (by LOCAL_RANK under torchrun), or "cpu"."""
    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"


@dataclass(frozen=True)
class ProcessGroup:
    """Rank and size of this process."""

    rank: int = 0
    size: int = 1
    made_group: bool = False  # by `join`, so that `leave` destroys it

    @classmethod
    def join(cls, timeout: timedelta | None = None) -> "ProcessGroup":
        """Join the group that torchrun's environment variables describe, or run alone."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        made = not dist.is_initialized()
        if made:  # only embeddings are exchanged: little to gain from nccl
            dist.init_process_group("gloo", timeout=timeout)
        return cls(dist.get_rank(), dist.get_world_size(), made)

    def leave(self) -> None:
        """Destroy the process group if `join` initialised it."""
        if self.made_group:
            dist.destroy_process_group()

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Return this process's share of `count` rows: consecutive, as even as possible."""
        edges = [round(rank * count / self.size) for rank in range(self.size + 1)]
        return slice(edges[self.rank], edges[self.rank + 1])

    def gather(self, ours: T) -> list[T]:
        """Gather one object from every process, in the order of ranks."""
        if self.size == 1:
            return [ours]
        received: list[Any] = [None] * self.size
        dist.all_gather_object(received, ours)
        return received

    def gather_array(self, ours: NDArray[Scalar]) -> NDArray[Scalar]:
        """Concatenate the arrays of all processes, in the order of ranks."""
        return np.concatenate(self.gather(ours))

    def gather_embeddings(self, ours: Embeddings) -> Embeddings:
        """Concatenate the embeddings of all processes, detached, in the order of ranks."""
        if self.size == 1:
            return ours
        means, spreads = zip(*self.gather((ours.mean.detach().cpu(), ours.spread.detach().cpu())), strict=True)
        device = ours.mean.device
        return ours.replace(torch.cat(means).to(device), torch.cat(spreads).to(device))

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sum the gradients of all processes: each has only that of its share of the batch."""
        if self.size == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
