"""What all triplet losses share: which triplets, in which chunks, and their average."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from surefind.embeddings import Embeddings
from surefind.functional.autograd import call
from surefind.functional.checks import check_embeddings
from surefind.functional.distance import squared_distances, triplet_distances
from surefind.losses.selection import (
    Chunk,
    GivenTriplets,
    Selection,
    select_triplets,
)

Term = Callable[..., Tensor]  # (chunk, *inputs) -> scalar


def sum_over_chunks(term: Term, chunks: Iterator[Any], *inputs: Tensor) -> Tensor:
    """The sum of term(chunk, *inputs) over all chunks, a float64 scalar.

    The gradient of a chunk is taken at once and added up, so that memory is that of one chunk and
    nothing is computed twice.
    """
    return call(_SumOverChunks, term, chunks, *inputs)


class _SumOverChunks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, term: Term, chunks: Iterator[Any], *inputs: Tensor) -> Tensor:
        wanted = [i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed]
        leaves = [tensor.detach() for tensor in inputs]
        for i in wanted:
            leaves[i].requires_grad_()
        total = torch.zeros((), dtype=torch.float64, device=inputs[0].device)
        sums = [torch.zeros_like(leaf) for leaf in leaves]
        for chunk in chunks:
            with torch.set_grad_enabled(bool(wanted)):
                value = term(chunk, *leaves)
            total += value.detach()
            if wanted:
                grads = torch.autograd.grad(
                    value, [leaves[i] for i in wanted], materialize_grads=True
                )
                for i, grad in zip(wanted, grads, strict=True):
                    sums[i] += grad
        ctx.save_for_backward(*sums)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(slope * grad.to(slope.dtype) for slope in ctx.saved_tensors)


_DIAGNOSED = 1 << 20  # triplets that `diagnose` looks at, evenly spaced, when there are more
_FEW = 16  # rows one by one cost less than a distance matrix this many times larger


class LossInfo(NamedTuple):
    """What the log wants to know; nothing here feeds the gradient."""

    win_rate: float  # share of triplets whose means are already in the right order
    median_std: float  # of tau; falling to the floor means variance collapse
    triplets: int
    cost: float  # mean over the triplets, without the divergence
    kl: float  # mean divergence to the prior of the images


class Scalars(NamedTuple):
    """Some triplets reduced to squared distances of means and spread parts, all broadcasting."""

    d_ap: Tensor
    d_an: Tensor
    d_pn: Tensor
    a: tuple[Tensor, ...]
    p: tuple[Tensor, ...]
    n: tuple[Tensor, ...]


class TripletCriterion(nn.Module, ABC):
    """A mean over triplets of a cost that depends on distances and spreads only.

    `forward(embeddings, labels)` takes every triplet of the batch; `triplets=(a, p, n)` the given
    index triplets; `indices_tuple` what a miner of pytorch-metric-learning returns.
    """

    chunk = 1 << 18  # triplets at once
    kl_scale = 0.0  # weight of the divergences of a triplet's three images

    @abstractmethod
    def cost(self, scalars: Scalars, dim: int) -> Tensor:
        """Of each triplet."""

    @abstractmethod
    def std(self, scalars: Scalars, dim: int) -> Tensor:
        """Of tau, for the log."""

    @abstractmethod
    def kl(self, embeddings: Embeddings) -> Tensor | None:
        """The divergence of each image from its prior, if this loss has a prior."""

    def as_batch(self, embeddings: Embeddings | Tensor) -> Embeddings:
        """What was passed, if this loss can use it."""
        check_embeddings("embeddings", embeddings)
        assert isinstance(embeddings, Embeddings)
        return embeddings

    def spread_parts(self, embeddings: Embeddings) -> tuple[Tensor, ...]:
        """What `cost` needs of each image besides distances, each (N,)."""
        return (embeddings.spread,)

    def forward(
        self,
        embeddings: Embeddings | Tensor,
        labels: Tensor | None = None,
        indices_tuple: Sequence[Tensor] | None = None,
        *,
        triplets: Sequence[Tensor] | None = None,
    ) -> Tensor:
        embeddings = self.as_batch(embeddings)
        selection = select_triplets(len(embeddings), labels, indices_tuple, triplets)
        count = len(selection)
        if count == 0:
            return 0 * (embeddings.mean.sum() + embeddings.spread.sum())
        total = self._sum(embeddings, selection)
        kl = self.kl(embeddings) if self.kl_scale else None
        if kl is not None:
            total = total + self.kl_scale * (kl.double() @ selection.appearances())
        return (total / count).to(embeddings.mean.dtype)

    @torch.no_grad()
    def diagnose(
        self,
        embeddings: Embeddings | Tensor,
        labels: Tensor | None = None,
        indices_tuple: Sequence[Tensor] | None = None,
        *,
        triplets: Sequence[Tensor] | None = None,
    ) -> LossInfo:
        """Numbers for the log, from at most a million of the triplets."""
        embeddings = self.as_batch(embeddings)
        selection = select_triplets(len(embeddings), labels, indices_tuple, triplets)
        count = len(selection)
        kl = self.kl(embeddings)
        mean_kl = 0.0 if kl is None or len(kl) == 0 else float(kl.mean())
        if count == 0:
            return LossInfo(float("nan"), float("nan"), 0, 0.0, mean_kl)
        distances = squared_distances(embeddings.mean, embeddings.mean)
        parts = self.spread_parts(embeddings)
        wins: list[Tensor] = []
        stds: list[Tensor] = []
        costs: list[Tensor] = []
        stride = -(-count // _DIAGNOSED)
        for chunk in selection.chunks(self.chunk):
            scalars = _gather(chunk, distances, *parts)
            rows = [
                value.expand(torch.broadcast_shapes(chunk.anchor.shape, chunk.negative.shape))
                for value in (
                    scalars.d_ap < scalars.d_an,
                    self.std(scalars, embeddings.dim),
                    self.cost(scalars, embeddings.dim),
                )
            ]
            if chunk.counts is not None:
                rows = [value[chunk.counts > 0] for value in rows]
            for held, value in zip((wins, stds, costs), rows, strict=True):
                held.append(value[::stride])
        return LossInfo(
            win_rate=float(torch.cat(wins).double().mean()),
            median_std=float(torch.cat(stds).median()),
            triplets=count,
            cost=float(torch.cat(costs).double().mean()),
            kl=mean_kl,
        )

    def _sum(self, embeddings: Embeddings, selection: Selection) -> Tensor:
        dim, parts = embeddings.dim, self.spread_parts(embeddings)

        def term(chunk: Chunk, distances: Tensor, *spreads: Tensor) -> Tensor:
            cost = self.cost(_gather(chunk, distances, *spreads), dim)
            return (cost if chunk.counts is None else cost * chunk.counts).sum()

        few = min(len(embeddings) ** 2 / _FEW, self.chunk)
        if isinstance(selection, GivenTriplets) and len(selection) <= few:
            return self.cost(_row_by_row(selection, embeddings.mean, parts), dim).sum()
        distances = squared_distances(embeddings.mean, embeddings.mean)
        return sum_over_chunks(term, selection.chunks(self.chunk), distances, *parts)


def _gather(chunk: Chunk, distances: Tensor, *spreads: Tensor) -> Scalars:
    anchor, positive, negative = chunk.anchor, chunk.positive, chunk.negative
    if chunk.counts is None:
        flat, batch = distances.reshape(-1), len(distances)
        d_ap, d_an, d_pn = (
            flat.index_select(0, x * batch + y)
            for x, y in ((anchor, positive), (anchor, negative), (positive, negative))
        )
        a, p, n = (tuple(s.index_select(0, side) for s in spreads) for side in chunk[:3])
        return Scalars(d_ap, d_an, d_pn, a, p, n)
    rows, columns = anchor.squeeze(1), positive.squeeze(1)
    d_an, d_pn = distances.index_select(0, rows), distances.index_select(0, columns)
    return Scalars(
        d_an.gather(1, positive),
        d_an,
        d_pn,
        tuple(s.index_select(0, rows)[:, None] for s in spreads),
        tuple(s.index_select(0, columns)[:, None] for s in spreads),
        spreads,
    )


def _row_by_row(selection: GivenTriplets, mean: Tensor, parts: tuple[Tensor, ...]) -> Scalars:
    sides = (selection.anchor, selection.positive, selection.negative)
    spreads = [tuple(part.index_select(0, side) for part in parts) for side in sides]
    return Scalars(*triplet_distances(mean, *sides), *spreads)
