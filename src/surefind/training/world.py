"""The processes that train together: one, or those that torchrun started."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from surefind.embeddings import Embeddings


@dataclass(frozen=True)
class World:
    """Who this process is among all."""

    rank: int = 0
    size: int = 1
    made_group: bool = False  # by `join`; the caller's own stays when this one leaves

    @classmethod
    def join(cls) -> "World":
        """The group that torchrun's environment describes, or this process alone."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        made = not dist.is_initialized()
        if made:  # embeddings travel, not images: little to gain from nccl
            dist.init_process_group("gloo")
        return cls(dist.get_rank(), dist.get_world_size(), made)

    def leave(self) -> None:
        """End the group, if `join` made it."""
        if self.made_group:
            dist.destroy_process_group()

    @property
    def writes(self) -> bool:
        return self.rank == 0

    def share(self, count: int) -> slice:
        """This process's rows of `count`: consecutive shares, as even as can be."""
        edges = [round(part * count / self.size) for part in range(self.size + 1)]
        return slice(edges[self.rank], edges[self.rank + 1])

    def gather(self, ours: Embeddings) -> Embeddings:
        """The embeddings of all processes, in the order of their ranks, without a graph."""
        if self.size == 1:
            return ours
        table = torch.cat([ours.mean, ours.spread[:, None]], dim=1).detach()
        whole = self._gather_rows(table.cpu()).to(table.device)
        return ours.replace(whole[:, :-1].contiguous(), whole[:, -1].contiguous())

    def gather_numbers(self, ours: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.size == 1:
            return ours
        return self._gather_rows(torch.from_numpy(ours)[:, None]).squeeze(1).numpy()

    def first_row(self, count: int) -> int:
        """Where this process's rows start among all, when it has `count`."""
        if self.size == 1:
            return 0
        return int(sum(self._counts(count)[: self.rank]))

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Each process has the gradient of its own images; the sum is that of the batch."""
        if self.size == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()

    def _counts(self, count: int) -> list[int]:
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(counts, torch.tensor([count]))
        return [int(number) for number in counts]

    def _gather_rows(self, ours: Tensor) -> Tensor:
        """Rows of all processes; shares may differ in length, so they travel padded."""
        counts = self._counts(len(ours))
        padded = ours.new_zeros(max(counts), ours.shape[1])
        padded[: len(ours)] = ours
        received = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(received, padded)
        return torch.cat([rows[:count] for rows, count in zip(received, counts, strict=True)])
