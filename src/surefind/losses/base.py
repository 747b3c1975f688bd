"""Base of the triplet losses: selection of triplets, and their mean in chunks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from surefind.embeddings import Embeddings, check_embeddings
from surefind.errors import InvalidArgument
from surefind.functional._autograd import with_slopes
from surefind.functional.distance import squared_distances, triplet_distances
from surefind.validation import as_integers, as_tensor


class Chunk(NamedTuple):
    """Triplets as index tensors that broadcast against each other, and a mask."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    counts: Tensor | None  # (pairs, batch) of 0 and 1; None: all of them do


@dataclass(frozen=True)
class AllTriplets:
    """Every (anchor, positive, negative) that the labels allow: pairs times the whole batch."""

    pairs: Tensor  # (2, pairs), anchor and positive
    same: Tensor  # (batch, batch) bool: the labels are equal
    sizes: Tensor  # (batch,) how many labels are equal to this one, itself included

    @classmethod
    def of(cls, labels: Tensor) -> "AllTriplets":
        same = labels[:, None] == labels
        pairs = torch.nonzero(same.clone().fill_diagonal_(False))
        return cls(pairs.T.contiguous(), same, same.sum(1))

    def __len__(self) -> int:
        return int(((self.sizes - 1) * (len(self.sizes) - self.sizes)).sum())

    def appearances(self) -> Tensor:
        """Number of triplets that each image is in, (batch,)."""
        pairs = self.sizes - 1
        of_pair = pairs * (len(self.sizes) - self.sizes)  # as anchor, and as positive
        return (2 * of_pair + pairs.sum() - self.sizes * pairs).double()

    def chunks(self, size: int) -> Iterator[Chunk]:
        rows = max(1, size // max(1, len(self.same)))
        differs, everyone = (~self.same).float(), torch.arange(len(self.same), device=self.same.device)
        for anchor, positive in zip(*(side.split(rows) for side in self.pairs), strict=True):
            yield Chunk(anchor[:, None], positive[:, None], everyone, differs.index_select(0, anchor))


@dataclass(frozen=True)
class GivenTriplets:
    """Triplets given by their indices."""

    sides: Tensor  # (3, T): anchors, positives, negatives
    batch: int

    def __len__(self) -> int:
        return self.sides.shape[1]

    def appearances(self) -> Tensor:
        return torch.bincount(self.sides.view(-1), minlength=self.batch).double()

    def chunks(self, size: int) -> Iterator[Chunk]:
        for anchor, positive, negative in self.sides.split(size, dim=1):
            yield Chunk(anchor, positive, negative, None)


Selection = AllTriplets | GivenTriplets


def select_triplets(
    embeddings: Embeddings,
    labels: ArrayLike | None,
    indices_tuple: Sequence[ArrayLike] | None,
    triplets: Sequence[ArrayLike] | None,
) -> Selection:
    """Return the given triplets, or those of a miner's tuple, or all that the labels allow."""
    batch, device = len(embeddings), embeddings.mean.device
    if labels is not None:
        labels = as_integers("labels", labels, batch, texts=True).to(device)
    if triplets is not None:
        return _given("triplets", triplets, batch, device, lengths=(3,))
    if indices_tuple is not None:
        return _given("indices_tuple", indices_tuple, batch, device, lengths=(3, 4))
    if labels is None:
        raise InvalidArgument("labels", expected="labels or triplets", got="neither")
    return AllTriplets.of(labels)


def _given(
    name: str, indices: Sequence[ArrayLike], batch: int, device: torch.device, *, lengths: tuple[int, ...]
) -> GivenTriplets:
    if not isinstance(indices, tuple | list) or len(indices) not in lengths:
        wanted = " or ".join(str(length) for length in lengths)
        got = f"{len(indices)}" if isinstance(indices, tuple | list) else type(indices).__name__
        raise InvalidArgument(name, expected=f"a tuple of {wanted} index tensors", got=got)
    sides = []
    for given in indices:
        side = as_tensor(name, given)
        if side.ndim != 1 or (len(side) and side.dtype not in (torch.int64, torch.int32)):
            got = f"{side.dtype} {tuple(side.shape)}"
            raise InvalidArgument(name, expected="one-dimensional integer tensors", got=got)
        low, high = (int(end) for end in side.aminmax()) if len(side) else (0, -1)
        if low < 0 or high >= batch:
            raise InvalidArgument(name, expected=f"indices from 0 to {batch - 1}", got=f"{low} to {high}")
        sides.append(side.to(device, torch.int64))
    pairs = [(0, 1), (2, 3)] if len(sides) == 4 else [(0, 1), (0, 2)]
    for left, right in pairs:
        if len(sides[left]) != len(sides[right]):
            raise InvalidArgument(
                name, expected="index tensors of one length", got=f"{len(sides[left])} and {len(sides[right])}"
            )
    if len(sides) == 4:  # a pair miner: positives (a, p) and negatives (a, n), joined on a
        anchor, positive, other_anchor, negative = sides
        joined = torch.nonzero(anchor[:, None] == other_anchor)
        sides = [anchor[joined[:, 0]], positive[joined[:, 0]], negative[joined[:, 1]]]
    return GivenTriplets(torch.stack(sides), batch)


_DIAGNOSED = 1 << 20  # largest number of triplets that `diagnose` uses, evenly spaced
_FEW = 16  # row-by-row distances cost less than a matrix this many times larger


class LossInfo(NamedTuple):
    """Diagnostics of a batch for the training log; without gradient.

    Attributes:
        win_rate: Share of triplets whose means are already in the right order.
        median_std: Of tau; falling to the floor means variance collapse.
        triplets: Number of triplets.
        cost: Mean over the triplets, without the divergence.
        kl: Mean divergence to the prior of the images.
    """

    win_rate: float
    median_std: float
    triplets: int
    cost: float
    kl: float


class Scalars(NamedTuple):
    """Some triplets reduced to squared distances of means and spread parts, all broadcasting."""

    d_ap: Tensor
    d_an: Tensor
    d_pn: Tensor
    a: tuple[Tensor, ...]
    p: tuple[Tensor, ...]
    n: tuple[Tensor, ...]


class TripletCriterion(nn.Module, ABC):
    """Base class: mean over triplets of a cost that depends on distances and spreads only."""

    chunk = 1 << 16  # triplets at once, so that they stay in the cache
    kl_scale = 0.0  # weight of the divergences of a triplet's three images

    @abstractmethod
    def cost(self, scalars: Scalars, dim: int) -> Tensor:
        """Return the cost of each triplet."""

    @abstractmethod
    def std(self, scalars: Scalars, dim: int) -> Tensor:
        """Return the standard deviation of tau, for the log."""

    def kl(self, embeddings: Embeddings) -> Tensor | None:
        """Return the divergence of each image from its prior, if this loss has a prior."""
        return None

    def as_batch(self, embeddings: Embeddings | Tensor) -> Embeddings:
        """Return the embeddings; raise InvalidArgument if this loss cannot use them."""
        check_embeddings("embeddings", embeddings)
        assert isinstance(embeddings, Embeddings)
        return embeddings

    def spread_parts(self, embeddings: Embeddings) -> tuple[Tensor, ...]:
        """Return what `cost` needs of each image besides distances, each (N,)."""
        return (embeddings.spread,)

    def forward(
        self,
        embeddings: Embeddings | Tensor,
        labels: ArrayLike | None = None,
        indices_tuple: Sequence[ArrayLike] | None = None,
        *,
        triplets: Sequence[ArrayLike] | None = None,
    ) -> Tensor:
        """Return the loss of the triplets given, or of all that the labels allow.

        Args:
            embeddings: N embeddings.
            labels: Class of each, (N,), integers or texts.
            indices_tuple: Output of a miner of pytorch-metric-learning.
            triplets: Indices of anchors, positives and negatives, (T,) each.

        Returns:
            A scalar; 0 if there is no triplet.

        Raises:
            InvalidArgument: If the embeddings, labels or indices are not valid.
        """
        embeddings = self.as_batch(embeddings)
        selection = select_triplets(embeddings, labels, indices_tuple, triplets)
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
        labels: ArrayLike | None = None,
        indices_tuple: Sequence[ArrayLike] | None = None,
        *,
        triplets: Sequence[ArrayLike] | None = None,
    ) -> LossInfo:
        """Return diagnostics for the log, from at most a million of the triplets.

        `embeddings`, `labels`, `indices_tuple` and `triplets` are as in `forward`, which raises the same errors.

        Returns:
            Win rate, spread, cost and divergence.
        """
        embeddings = self.as_batch(embeddings)
        selection = select_triplets(embeddings, labels, indices_tuple, triplets)
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
        few = min(len(embeddings) ** 2 / _FEW, self.chunk)
        if isinstance(selection, GivenTriplets) and len(selection) <= few:
            return self.sum_of_few(embeddings, triplet_distances(embeddings.mean, *selection.sides), selection.sides)
        distances = squared_distances(embeddings.mean, embeddings.mean)
        return self.sum_of_costs(embeddings, distances, selection)

    def sum_of_few(self, embeddings: Embeddings, distances: Tensor, sides: Tensor) -> Tensor:
        """Return the sum over few triplets, given their squared distances and their indices, (3, T) each."""
        parts = self.spread_parts(embeddings)
        spreads = [tuple(part.index_select(0, side) for part in parts) for side in sides]
        return self.cost(Scalars(*distances, *spreads), embeddings.dim).sum()

    def sum_of_costs(self, embeddings: Embeddings, distances: Tensor, selection: Selection) -> Tensor:
        """Return the sum over all triplets, given the squared distances of all means."""
        dim = embeddings.dim

        def compute(*inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
            leaves = [tensor.detach().requires_grad_() for tensor in inputs]
            slopes = [torch.zeros_like(tensor) for tensor in inputs]
            total = torch.zeros((), dtype=torch.float64, device=distances.device)
            for chunk in selection.chunks(self.chunk):
                with torch.enable_grad():
                    cost = self.cost(_gather(chunk, *leaves), dim)
                    value = (cost if chunk.counts is None else cost * chunk.counts).sum()
                for slope, grad in zip(slopes, torch.autograd.grad(value, leaves, materialize_grads=True), strict=True):
                    slope += grad
                total += value.detach()
            return total, slopes

        return with_slopes(compute, distances, *self.spread_parts(embeddings))


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
