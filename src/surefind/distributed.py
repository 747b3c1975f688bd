"""Processes that work together: this one alone, or those that torchrun started."""

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


def own_device() -> str:
    """A GPU if there is one; of torchrun's processes each takes its own."""
    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"


@dataclass(frozen=True)
class ProcessGroup:
    """Rank and size of this process."""

    rank: int = 0
    size: int = 1
    made_group: bool = False  # by `join`; the caller's own stays when this one leaves

    @classmethod
    def join(cls, timeout: timedelta | None = None) -> "ProcessGroup":
        """The group that torchrun's environment describes, or this process alone."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        made = not dist.is_initialized()
        if made:  # embeddings travel, not images: little to gain from nccl
            dist.init_process_group("gloo", timeout=timeout)
        return cls(dist.get_rank(), dist.get_world_size(), made)

    def leave(self) -> None:
        """End the group, if `join` made it."""
        if self.made_group:
            dist.destroy_process_group()

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def share(self, count: int) -> slice:
        """This process's rows of `count`: consecutive shares, as even as can be."""
        edges = [round(part * count / self.size) for part in range(self.size + 1)]
        return slice(edges[self.rank], edges[self.rank + 1])

    def gather(self, ours: T) -> list[T]:
        """What every process has, in the order of their ranks."""
        if self.size == 1:
            return [ours]
        received: list[Any] = [None] * self.size
        dist.all_gather_object(received, ours)
        return received

    def gather_numbers(self, ours: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.concatenate(self.gather(ours))

    def gather_embeddings(self, ours: Embeddings) -> Embeddings:
        """The embeddings of all processes, in the order of their ranks, without a graph."""
        if self.size == 1:
            return ours
        means, spreads = zip(
            *self.gather((ours.mean.detach().cpu(), ours.spread.detach().cpu())), strict=True
        )
        device = ours.mean.device
        return ours.replace(torch.cat(means).to(device), torch.cat(spreads).to(device))

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Each process has the gradient of its own images; the sum is that of the batch."""
        if self.size == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
