"""Fit variance heads to labelled vectors; the vectors stay fixed."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefind.confidence.variance_heads import VarianceHeads, find_directions
from surefind.embeddings import LARGEST_SPREAD, SMALLEST_SPREAD, Gaussians
from surefind.errors import InvalidArgument
from surefind.functional.distance import squared_distances
from surefind.losses import BayesianTripletLoss

READ, COMPARED = 32, 128  # principal directions: inputs of heads; for distances in triplets
PER_DIRECTION = 4  # vectors needed per input direction
TRIPLETS = 512  # per step and head
RATE, DECAY = 1e-2, 1.0  # without decay heads overfit small sets
FEWEST_CLASSES = 4  # with two vectors or more
MATCHES, OTHERS = 5, 10  # nearest positives and negatives to sample from
MOST = 3000  # vectors per head, since all pairwise distances are computed


class Fitted(NamedTuple):
    """Heads, and the log variance of each vector by heads that never saw its class."""

    heads: VarianceHeads
    log_var: Tensor  # (N,)


class HardTriplets(NamedTuple):
    """Candidate triplets (row numbers); computed once, since the means are fixed."""

    anchors: Tensor  # (A,)
    matches: Tensor  # (A, up to MATCHES), the nearest first
    found: Tensor  # (A,) how many matches there are
    others: Tensor  # (A, up to OTHERS)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Anchor, match and other of random triplets, (3, count)."""
        chosen = torch.randint(len(self.anchors), (count,), generator=generator)
        match = torch.rand(count, generator=generator) * self.found[chosen]
        other = torch.randint(self.others.shape[1], (count,), generator=generator)
        sides = (
            self.anchors[chosen],
            self.matches[chosen, match.long()],
            self.others[chosen, other],
        )
        return torch.stack(sides)


def fit_variance_heads(
    vectors: Tensor,
    labels: Sequence[object] | NDArray[np.generic],
    *,
    heads: int = 8,
    steps: int = 150,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Fitted:
    r"""Fit heads to the likelihood of the triplets of labelled vectors (N, D):

        minimise  -log P(|a - p|^2 < |a - n|^2)  over var, means fixed, centred

    over hard triplets, along K <= `COMPARED` principal directions, to which all noise (D var) is
    attributed. Labels only select triplets. `progress` gets the number of steps done.
    """
    codes = torch.from_numpy(np.unique([str(one) for one in labels], return_inverse=True)[1])
    pairs = int((codes.bincount() > 1).sum())
    if pairs < FEWEST_CLASSES:
        raise InvalidArgument(
            "labels",
            expected=f"at least {FEWEST_CLASSES} classes with two vectors or more",
            got=f"{pairs} of {len(codes.unique())} classes",
        )
    vectors = vectors.detach().cpu().float()
    directions = find_directions(vectors, most=COMPARED, seed=seed)
    made = VarianceHeads.start(
        vectors,
        directions.first(min(READ, len(vectors) // PER_DIRECTION)),
        heads=heads,
        initial=math.log(directions.scale / vectors.shape[1]),  # D var = a typical distance
        seed=seed,
    )
    means = directions.coordinates(vectors)
    dim, compared = directions.axes.shape
    unit = directions.scale * compared / dim  # the variance that is 1 along each direction
    bags = torch.Generator().manual_seed(seed)
    sees = halve_classes(codes.bincount(), heads, generator=bags)[codes]
    pools = []
    for head in range(heads):  # each with its own generator
        generator = torch.Generator().manual_seed(seed * heads + head)
        rows = sees[:, head].nonzero().squeeze(1)
        pools.append((hard_triplets(means, codes, rows, generator=generator), generator))
    loss = BayesianTripletLoss(kl_scale=0, centred=True)
    weights, biases = [made.weight_in, made.weight_out], [made.bias_in, made.bias_out]
    groups = [{"params": weights, "weight_decay": DECAY}, {"params": biases, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    sides = torch.arange(3 * TRIPLETS * heads).view(heads, 3, TRIPLETS)
    triplets = tuple(sides[:, side].flatten() for side in range(3))
    inputs = made.inputs(vectors)
    for step in range(steps):  # all heads in one batch
        rows = torch.stack([pool.draw(TRIPLETS, chance).flatten() for pool, chance in pools])
        with torch.enable_grad():
            var = (made.read(inputs[rows]) - math.log(unit)).exp()
            embeddings = Gaussians(means[rows.flatten()], var.flatten())
            cost: Tensor = loss(embeddings, triplets=triplets) * heads
            optimizer.zero_grad()
            cost.backward()
        optimizer.step()
        if progress is not None:
            progress(step + 1)
    made.requires_grad_(False).eval()
    log_var = (made(vectors) * ~sees).sum(1) / (~sees).sum(1)
    return Fitted(made, log_var.clamp(math.log(SMALLEST_SPREAD), math.log(LARGEST_SPREAD)))


def halve_classes(sizes: Tensor, heads: int, *, generator: torch.Generator) -> Tensor:
    """Assign classes to heads, (C, heads), given the number of vectors per class (C,).

    Heads 2i and 2i + 1 get the two halves of the i-th random split. Classes with one vector, which
    are only negatives, are split separately.
    """
    sees = torch.zeros(len(sizes), heads, dtype=torch.bool)
    kinds = [kind.nonzero().squeeze(1) for kind in (sizes > 1, sizes <= 1)]
    for first in range(0, heads, 2):
        for kind in kinds:
            mixed = kind[torch.randperm(len(kind), generator=generator)]
            sees[mixed[0::2], first] = True
            sees[mixed[1::2], first + 1] = True
    return sees


def hard_triplets(
    means: Tensor, codes: Tensor, rows: Tensor, *, generator: torch.Generator
) -> HardTriplets:
    """Nearest positives and negatives among these rows of the means (N, K), at most `MOST`."""
    rows = _thinned(codes, rows, generator)
    distances = squared_distances(means[rows], means[rows])
    same = codes[rows][:, None] == codes[rows]
    others = distances.masked_fill(same, math.inf)
    matches = distances.masked_fill(~same.fill_diagonal_(False), math.inf)
    gap, nearest = matches.topk(min(MATCHES, len(rows)), largest=False)
    found = gap.isfinite().sum(1)
    # With few rows some have fewer negatives: use the number that all have.
    count = min(OTHERS, int(others.isfinite().sum(1).min()))
    near = others.topk(count, largest=False).indices
    usable = found > 0
    return HardTriplets(rows[usable], rows[nearest[usable]], found[usable], rows[near[usable]])


def _thinned(codes: Tensor, rows: Tensor, generator: torch.Generator) -> Tensor:
    """At most `MOST` rows, in pairs of the same class, evenly over classes."""
    if len(rows) <= MOST:
        return rows
    rows = rows[torch.randperm(len(rows), generator=generator)]
    rows = rows[codes[rows].sort(stable=True).indices]
    _, sizes = codes[rows].unique_consecutive(return_counts=True)
    starts = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    place = torch.arange(len(rows)) - starts
    mixed = torch.randperm(len(sizes), generator=generator).repeat_interleave(sizes)
    rounds = place // 2 * len(sizes) + mixed  # pairs in turn, classes in random order
    return rows[rounds.sort(stable=True).indices[:MOST]].sort().values
