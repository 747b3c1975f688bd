"""Which triplets of a batch a loss looks at: all that the labels allow, or the given ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from surefind.errors import InvalidArgument


class Chunk(NamedTuple):
    """Some triplets as index tensors that broadcast against each other, and which of them count."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    counts: Tensor | None  # (pairs, batch) of 0 and 1; None: all of them do


@dataclass(frozen=True)
class AllTriplets:
    """Every (anchor, positive, negative) that the labels allow: pairs times the whole batch."""

    pairs: Tensor  # (2, pairs), anchor and positive
    differs: Tensor  # (batch, batch) of 0 and 1: the labels differ

    @classmethod
    def of(cls, labels: Tensor) -> "AllTriplets":
        same = labels[:, None] == labels
        differs = (~same).float()
        pairs = torch.nonzero(same.fill_diagonal_(False))
        usable = differs.sum(1) > 0
        return cls(pairs[usable[pairs[:, 0]]].T.contiguous(), differs)

    def __len__(self) -> int:
        return int(self.differs.sum(1, dtype=torch.float64)[self.pairs[0]].sum())

    def appearances(self) -> Tensor:
        """How many triplets each image is in, (batch,)."""
        batch = len(self.differs)
        as_anchor = torch.bincount(self.pairs[0], minlength=batch).double()
        negatives = self.differs.sum(1, dtype=torch.float64)
        as_negative = self.differs.double() @ as_anchor
        return 2 * as_anchor * negatives + as_negative

    def chunks(self, size: int) -> Iterator[Chunk]:
        rows = max(1, size // max(1, len(self.differs)))
        everyone = torch.arange(len(self.differs), device=self.differs.device)
        for anchor, positive in zip(*(side.split(rows) for side in self.pairs), strict=True):
            yield Chunk(
                anchor[:, None],
                positive[:, None],
                everyone,
                self.differs.index_select(0, anchor),
            )


@dataclass(frozen=True)
class GivenTriplets:
    """The triplets with these indices."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    batch: int

    def __len__(self) -> int:
        return len(self.anchor)

    def appearances(self) -> Tensor:
        together = torch.cat([self.anchor, self.positive, self.negative])
        return torch.bincount(together, minlength=self.batch).double()

    def chunks(self, size: int) -> Iterator[Chunk]:
        sides = (side.split(size) for side in (self.anchor, self.positive, self.negative))
        for anchor, positive, negative in zip(*sides, strict=True):
            yield Chunk(anchor, positive, negative, None)


Selection = AllTriplets | GivenTriplets


def select_triplets(
    batch: int,
    labels: Tensor | None,
    indices_tuple: Sequence[Tensor] | None,
    triplets: Sequence[Tensor] | None,
) -> Selection:
    """The given triplets, or those of a miner's tuple, or else all that the labels allow."""
    if labels is not None:
        _check_labels(labels, batch)
    if triplets is not None:
        return _given("triplets", triplets, batch, lengths=(3,))
    if indices_tuple is not None:
        return _given("indices_tuple", indices_tuple, batch, lengths=(3, 4))
    if labels is None:
        raise InvalidArgument(
            "labels",
            expected="labels or triplets",
            got="neither",
            fix="call loss(embeddings, labels)",
        )
    return AllTriplets.of(labels)


def _check_labels(labels: object, batch: int) -> None:
    if not isinstance(labels, Tensor) or labels.ndim != 1 or len(labels) != batch:
        got = (
            f"shape {tuple(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
        )
        raise InvalidArgument(
            "labels",
            expected=f"a tensor of {batch} labels, one per embedding",
            got=got,
            fix="pass the labels of this batch, in its order",
        )
    if labels.is_floating_point() or labels.is_complex():
        raise InvalidArgument(
            "labels",
            expected="integers",
            got=str(labels.dtype),
            fix="pass class numbers: labels.long()",
        )


def _given(
    name: str, indices: Sequence[Tensor], batch: int, *, lengths: tuple[int, ...]
) -> GivenTriplets:
    wanted = " or ".join(str(length) for length in lengths)
    if not isinstance(indices, tuple | list) or len(indices) not in lengths:
        got = f"{len(indices)}" if isinstance(indices, tuple | list) else type(indices).__name__
        raise InvalidArgument(
            name,
            expected=f"a tuple of {wanted} index tensors",
            got=got,
            fix="pass (anchors, positives, negatives)",
        )
    for side in indices:
        integral = isinstance(side, Tensor) and side.dtype in (torch.int64, torch.int32)
        if not integral or side.ndim != 1:
            got = f"{side.dtype} {tuple(side.shape)}" if isinstance(side, Tensor) else repr(side)
            raise InvalidArgument(
                name,
                expected="one-dimensional integer tensors",
                got=got,
                fix="use torch.long indices",
            )
        if len(side) and not (int(side.min()) >= 0 and int(side.max()) < batch):
            raise InvalidArgument(
                name,
                expected=f"indices from 0 to {batch - 1}",
                got=f"{int(side.min())} to {int(side.max())}",
                fix="index into the embeddings of this batch",
            )
    sides = [side.long() for side in indices]
    pairs = [(0, 1), (2, 3)] if len(sides) == 4 else [(0, 1), (0, 2)]
    for left, right in pairs:
        if len(sides[left]) != len(sides[right]):
            raise InvalidArgument(
                name,
                expected="index tensors of one length",
                got=f"{len(sides[left])} and {len(sides[right])}",
                fix="one entry per triplet in each",
            )
    if len(sides) == 4:  # a pair miner: positives (a, p) and negatives (a, n), joined on a
        anchor, positive, other_anchor, negative = sides
        joined = torch.nonzero(anchor[:, None] == other_anchor)
        sides = [anchor[joined[:, 0]], positive[joined[:, 0]], negative[joined[:, 1]]]
    return GivenTriplets(sides[0], sides[1], sides[2], batch)
