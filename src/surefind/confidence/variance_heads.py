"""Ensemble of small networks that predict the variance of fixed vectors, and its training."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from surefind.embeddings import LARGEST_SPREAD, SMALLEST_SPREAD, Gaussians
from surefind.errors import InvalidArgument
from surefind.functional.distance import squared_distances

HIDDEN = 16
EASY = 2.0  # scale of the asinh that limits a log variance
FARTHEST = 10.0  # standard deviations at which inputs are clipped
FLOOR = 1e-3  # of the squared length outside the directions, relative to the whole
ENOUGH = 8192  # vectors used to find directions
FLATTEST = 1e-6  # smallest variance of a direction, relative to the first
READ, COMPARED = 32, 128  # principal directions: inputs of heads; for distances in triplets
PER_DIRECTION = 4  # vectors needed per input direction
TRIPLETS = 512  # per step and head
RATE, DECAY = 1e-2, 1.0  # without decay heads overfit small sets
FEWEST_CLASSES = 4  # with two vectors or more
MATCHES, OTHERS = 5, 10  # nearest positives and negatives to sample from
MOST = 3000  # vectors per head, since all pairwise distances are computed


class Directions(NamedTuple):
    """Principal directions of unlabelled vectors, by decreasing variance."""

    centre: Tensor  # (D,)
    axes: Tensor  # (D, K), of length 1
    std: Tensor  # (K,) of the vectors along each
    scale: float  # a typical squared distance between two vectors

    def coordinates(self, vectors: Tensor) -> Tensor:
        """Coordinates (N, K), scaled so that a typical squared distance is 1."""
        return (vectors - self.centre) @ self.axes / math.sqrt(self.scale)


def find_directions(vectors: Tensor, *, most: int, seed: int) -> Directions:
    """At most `most` principal directions of vectors (N, D)."""
    # Imported here: searches load heads but never fit directions.
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]

    if len(vectors) > ENOUGH:
        order = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(seed))
        vectors = vectors[order[:ENOUGH].sort().values]
    some = vectors.double().numpy()
    pca = PCA(min(most, *some.shape), random_state=seed).fit(some)
    wide = pca.explained_variance_ > FLATTEST * pca.explained_variance_[0]
    squared = np.square(some - pca.mean_).sum(axis=1)
    return Directions(
        torch.as_tensor(pca.mean_, dtype=torch.float32),
        torch.as_tensor(pca.components_[wide].T.copy(), dtype=torch.float32),
        torch.as_tensor(np.sqrt(pca.explained_variance_[wide]), dtype=torch.float32),
        # E|x - y|^2 = 2 E|x - centre|^2; the median, unless most vectors are one and the same
        2 * float(np.median(squared) or np.mean(squared)),
    )


class VarianceHeads(nn.Module):
    r"""log var_m(x) = initial + E asinh((f_m(z) + g_m(z)) / E),  f, g: one hidden layer each.

    z: the coordinates of x along P principal directions, whitened, and the log of the squared
    length outside them, without which an out-of-distribution vector looks like an average one.
    f_m is learned; g_m is random and fixed: heads cancel it near training vectors and differ
    elsewhere (randomised priors, Osband et al. 2018). asinh has no hard bound, unlike tanh.

    `var` is that of an isotropic Gaussian around x, per dimension, in squared units of x.
    """

    centre: Tensor
    projection: Tensor
    std: Tensor
    outside: Tensor
    initial: Tensor
    prior_in: Tensor
    prior_bias: Tensor
    prior_out: Tensor

    def __init__(self, dim: int, directions: int, heads: int) -> None:
        super().__init__()
        inputs, hidden = directions + 1, HIDDEN
        self.register_buffer("centre", torch.zeros(dim))
        self.register_buffer("projection", torch.zeros(dim, directions))  # whitening
        self.register_buffer("std", torch.ones(directions))  # before whitening
        self.register_buffer("outside", torch.ones(3))  # floor; mean and std of the log
        self.register_buffer("initial", torch.zeros(()))
        self.register_buffer("prior_in", torch.zeros(heads, inputs, hidden))
        self.register_buffer("prior_bias", torch.zeros(heads, 1, hidden))
        self.register_buffer("prior_out", torch.zeros(heads, hidden, 1))
        self.weight_in = nn.Parameter(torch.zeros(heads, inputs, hidden))
        self.bias_in = nn.Parameter(torch.zeros(heads, 1, hidden))
        self.weight_out = nn.Parameter(torch.zeros(heads, hidden, 1))
        self.bias_out = nn.Parameter(torch.zeros(heads, 1, 1))

    @classmethod
    @torch.no_grad()
    def start(cls, vectors: Tensor, directions: Directions, *, heads: int, initial: float, seed: int) -> Self:
        """Untrained heads with log variances near `initial`."""
        dim, width = directions.axes.shape
        made = cls(dim, width, heads)
        made.centre.copy_(directions.centre)
        made.projection.copy_(directions.axes / directions.std)
        made.std.copy_(directions.std)
        made.initial.fill_(initial)
        made.outside[0] = FLOOR * (vectors - made.centre).square().sum(1).mean()
        _, outside = made._split(vectors)
        made.outside[1], made.outside[2] = outside.mean(), outside.std().clamp(min=0.1)
        generator = torch.Generator().manual_seed(seed)
        inputs = width + 1
        for name, size in (
            ("weight_in", inputs**-0.5),
            ("weight_out", 0.1 * HIDDEN**-0.5),
            ("prior_in", inputs**-0.5),
            ("prior_bias", 1.0),
            ("prior_out", 2 * HIDDEN**-0.5),
        ):
            getattr(made, name).normal_(generator=generator).mul_(size)
        return made

    def __len__(self) -> int:
        return len(self.bias_out)

    def forward(self, vectors: Tensor) -> Tensor:
        """Log variances (N, M) of vectors (N, D)."""
        return self.read(self.inputs(vectors)).T

    def inputs(self, vectors: Tensor) -> Tensor:
        """Inputs z, (N, P + 1)."""
        along, outside = self._split(vectors.to(self.centre))
        outside = (outside - self.outside[1]) / self.outside[2]
        return torch.cat([along, outside[:, None]], dim=1).clamp(-FARTHEST, FARTHEST)

    def read(self, inputs: Tensor) -> Tensor:
        """Log variances (M, n) of inputs (n, P + 1), or of (M, n, P + 1), some for each head."""
        learned = (inputs @ self.weight_in + self.bias_in).relu() @ self.weight_out + self.bias_out
        prior = (inputs @ self.prior_in + self.prior_bias).relu() @ self.prior_out
        return self.initial + EASY * ((learned + prior) / EASY).asinh().squeeze(-1)

    @torch.no_grad()
    def var(self, vectors: Tensor) -> Tensor:
        """Variance of each vector, (N,): the geometric mean over heads."""
        log_var: Tensor = self(vectors).mean(dim=1)
        return log_var.exp().clamp(SMALLEST_SPREAD, LARGEST_SPREAD)

    @torch.inference_mode()
    def log_var(self, vectors: Tensor | NDArray[np.floating]) -> NDArray[np.float64]:
        """Log variance of each vector, (N,): the mean over heads."""
        log_var: Tensor = self(torch.as_tensor(vectors).detach().cpu().float()).mean(dim=1)
        return log_var.double().numpy()

    def tensors(self) -> dict[str, Tensor]:
        """State for `from_tensors`."""
        return {name: value.detach().cpu().clone() for name, value in self.state_dict().items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Restore heads from `tensors()`."""
        (dim, directions), heads = tensors["projection"].shape, len(tensors["weight_in"])
        made = cls(dim, directions, heads)
        made.load_state_dict(dict(tensors))
        return made.requires_grad_(False).eval()

    def _split(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Whitened coordinates (N, P), and log(|rest|^2 + floor) (N,) of what they leave out."""
        centred = vectors - self.centre
        along = centred @ self.projection
        rest = centred.square().sum(1) - (along * self.std).square().sum(1)
        return along, (rest.clamp(min=0) + self.outside[0]).log()


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
        matches = self.matches[chosen, match.long()]
        return torch.stack([self.anchors[chosen], matches, self.others[chosen, other]])


def fit_variance_heads(
    vectors: Tensor,
    labels: Sequence[object] | NDArray[np.generic],
    *,
    heads: int = 8,
    steps: int = 150,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Fitted:
    r"""Fit heads to the likelihood of the triplets of labelled vectors (N, D):

        minimise  -log P(|a - p|^2 < |a - n|^2)  over var, means fixed, centred

    over hard triplets, along K <= `COMPARED` principal directions, to which all noise (D var) is
    attributed. Labels only select triplets. `progress` gets the number of steps done.
    """
    from surefind.losses import BayesianTripletLoss  # not for a search

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
    width = min(READ, len(vectors) // PER_DIRECTION)
    made = VarianceHeads.start(
        vectors,
        directions._replace(axes=directions.axes[:, :width], std=directions.std[:width]),
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


def hard_triplets(means: Tensor, codes: Tensor, rows: Tensor, *, generator: torch.Generator) -> HardTriplets:
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
