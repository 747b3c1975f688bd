"""Variance heads are learned from labelled vectors, which themselves stay as they are."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from surefind.embeddings import LARGEST_SPREAD, SMALLEST_SPREAD, Gaussians
from surefind.losses import BayesianTripletLoss
from surefind.search.doubt.bags import halve_classes
from surefind.search.doubt.checking import Labels, check_fit, class_codes
from surefind.search.doubt.directions import Directions, find_directions
from surefind.search.doubt.heads import VarianceHeads, spread_over_heads
from surefind.search.doubt.triplets import HardTriplets, hard_triplets

READ, COMPARED = 32, 128  # directions that heads read, and along which triplets are compared
PER_DIRECTION = 4  # vectors needed for each direction that heads read
TRIPLETS = 512  # a step, for each head
RATE, DECAY = 1e-2, 1.0  # decay: without it few vectors are learned by heart


class Fitted(NamedTuple):
    """The heads, and of each vector what those heads say that never saw its class."""

    heads: VarianceHeads
    log_var: Tensor  # (N,)
    disagreement: Tensor  # (N,)


def fit_variance_heads(
    vectors: Tensor,
    labels: Labels,
    *,
    heads: int = 8,
    steps: int = 150,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Fitted:
    r"""Variances under which vectors (N, D) are ordered as rightly as they are:

        minimise  -log P(|a - p|^2 < |a - n|^2)  over var, means fixed, centred

    over hard triplets, along K <= `COMPARED` principal directions, which hold all the noise there
    is: D var in the whole space. Labels choose the triplets and nothing else; the directions are
    those of all vectors. `progress` is told the number of steps done.
    """
    codes = class_codes(labels)
    check_fit(vectors, codes, heads=heads, steps=steps)
    vectors = vectors.detach().cpu().float()
    directions = find_directions(vectors, most=COMPARED, seed=seed)
    made = _start(vectors, directions, heads=heads, seed=seed)
    means = directions.coordinates(vectors)
    bags = torch.Generator().manual_seed(seed)
    sees = halve_classes(codes.bincount(), heads, generator=bags)[codes]
    pools = []
    for head in range(heads):  # each with its own chance: what one draws changes no other
        generator = torch.Generator().manual_seed(seed * heads + head)
        rows = sees[:, head].nonzero().squeeze(1)
        pools.append((hard_triplets(means, codes, rows, generator=generator), generator))
    with torch.enable_grad():
        _learn(made, made.inputs(vectors), means, pools, _unit(directions), steps, progress)
    made.requires_grad_(False).eval()
    return _judge(made, vectors, ~sees)


def _start(vectors: Tensor, directions: Directions, *, heads: int, seed: int) -> VarianceHeads:
    """Noise begins as large as distances are: D var = a typical squared distance."""
    read = directions.first(min(READ, len(vectors) // PER_DIRECTION))
    initial = math.log(directions.scale / vectors.shape[1])
    return VarianceHeads.start(vectors, read, heads=heads, initial=initial, seed=seed)


def _unit(directions: Directions) -> float:
    """The variance per dimension of vectors that is 1 along each direction, in their units."""
    dim, compared = directions.axes.shape
    return directions.scale * compared / dim


def _learn(
    heads: VarianceHeads,
    inputs: Tensor,
    means: Tensor,
    pools: list[tuple[HardTriplets, torch.Generator]],
    unit: float,
    steps: int,
    progress: Callable[[int], None] | None,
) -> None:
    """All heads at once: their triplets in one batch, their weights apart."""
    loss = BayesianTripletLoss(kl_scale=0, centred=True)
    weights, biases = [heads.weight_in, heads.weight_out], [heads.bias_in, heads.bias_out]
    groups = [{"params": weights, "weight_decay": DECAY}, {"params": biases, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    sides = torch.arange(3 * TRIPLETS * len(heads)).view(len(heads), 3, TRIPLETS)
    triplets = tuple(sides[:, side].flatten() for side in range(3))
    for step in range(steps):
        rows = torch.stack([pool.draw(TRIPLETS, generator).flatten() for pool, generator in pools])
        var = (heads.read(inputs[rows]) - math.log(unit)).exp()
        embeddings = Gaussians(means[rows.flatten()], var.flatten())
        cost: Tensor = loss(embeddings, triplets=triplets) * len(heads)
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        if progress is not None:
            progress(step + 1)


@torch.no_grad()
def _judge(heads: VarianceHeads, vectors: Tensor, unseen: Tensor) -> Fitted:
    log_var: Tensor = heads(vectors)
    mean = (log_var * unseen).sum(1) / unseen.sum(1)
    mean = mean.clamp(math.log(SMALLEST_SPREAD), math.log(LARGEST_SPREAD))  # as `var` is
    return Fitted(heads, mean, spread_over_heads(log_var, unseen))
