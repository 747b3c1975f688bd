"""Probability of each label for a query, from the labels of its nearest images."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp  # type: ignore[import-untyped]

from surefind.confidence.class_table import ClassTable, Codes, Numbers
from surefind.validation import parse

PRIOR_FILE = "prior.json"
TYPICAL = 10.0  # images of average spread that the spread of a class is shrunk with
NEAREST_MEAN = 0.1  # smallest distance to a mean after correction, relative to that before
FARTHEST_MEAN = 10.0  # largest log distance to a mean relative to the spread, which may be 0
SMALLEST_SHARE = 0.02  # added to shares before their logarithm
SMALLEST_WIDTH = 1e-3  # added to the inverse local dimension
QUERIES_AT_ONCE = 64  # whose class means are gathered
TINY = float(np.finfo(np.float64).tiny)

Flags = NDArray[np.bool_]


class LabelNeighbourhood(NamedTuple):
    """Q queries, their K nearest images, and the classes of these; squared distances of means.

    A query that is in the index, and its copies, are not counted in their class.
    """

    distance: Numbers  # (Q, K), ascending
    code: Codes  # (Q, K), class of each image; -1 if unlabelled
    mean_distance: Numbers  # (Q, K), to the mean of that class, without the error of that mean
    spread: Numbers  # (Q, K), variance within that class
    relative_size: Numbers  # (Q, K), log size of the class relative to the average
    size: Numbers  # (Q,), log of the average number of images in a class
    classes: Numbers  # (Q,), log of the number of classes

    def at(self, rows: NDArray[np.generic]) -> "LabelNeighbourhood":
        """Select queries."""
        return LabelNeighbourhood(*(column[rows] for column in self))

    @staticmethod
    def joined(parts: Sequence["LabelNeighbourhood"]) -> "LabelNeighbourhood":
        return LabelNeighbourhood(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def label_neighbourhood(
    table: ClassTable,
    query: Numbers,
    distance: Numbers,
    code: Codes,
    *,
    own: Codes | None = None,
    left_out: Numbers | None = None,
    classes: Numbers | None = None,
) -> LabelNeighbourhood:
    r"""Collect the classes of the nearest images.

    With the query taken away from its own class, n images with mean m and spread s are left:

        |q - mu|^2 is estimated by |q - m|^2 - s / n

    Args:
        table: Classes of the gallery.
        query: Means of Q queries, (Q, D).
        distance: Squared distances to their nearest images, (Q, K), ascending.
        code: Classes of these, (Q, K).
        own: Classes of the queries, (Q,), if they are known.
        left_out: Number of images of that class that are the query or its copies, (Q,).
        classes: Number of classes to choose from, (Q,); by default all of the table.
    """
    lengths = np.square(query).sum(axis=1)[:, None]
    known = np.maximum(code, 0)
    if not len(table.names):
        table = table.changed(np.zeros((1, query.shape[1])), ["-"])  # for lookups only
    products = np.empty(known.shape)
    for start in range(0, len(query), QUERIES_AT_ONCE):
        some = slice(start, start + QUERIES_AT_ONCE)
        products[some] = np.einsum("qd,qkd->qk", query[some], table.sums[known[some]])
    count, sums, squares = table.counts[known], table.squared_sums[known], table.squares[known]
    size = table.images / max(table.classes, 1)
    inside = np.zeros((len(query), 1)) if left_out is None else (left_out > 0)[:, None]
    each = count - inside  # as if one image of every class were asked for
    if own is not None and left_out is not None:
        less = np.where(code == own[:, None], left_out[:, None], 0.0)
        sums = sums - 2 * less * products + less**2 * lengths
        products, squares = products - less * lengths, squares - less * lengths
        count = count - less
    count = np.maximum(count, 1)
    scatter = np.maximum(squares - sums / count, 0)  # (n - 1) s
    spread = (scatter + TYPICAL * table.spread) / (count - 1 + TYPICAL)
    raw = np.maximum(lengths - 2 * products / count + sums / count**2, TINY)
    average = np.log(np.maximum(size - inside[:, 0], 0.5))
    if classes is None:
        classes = np.full(len(query), float(table.classes))
    return LabelNeighbourhood(
        distance=distance,
        code=code,
        mean_distance=np.maximum(raw - spread / count, NEAREST_MEAN * raw),
        spread=np.maximum(spread, TINY),
        relative_size=np.log(np.maximum(each, 0.5)) - average[:, None],
        size=average,
        classes=np.log(np.maximum(classes, 1)),
    )


class _Shared:
    """What the columns share: which neighbours are of one class, logarithms of distances."""

    def __init__(self, near: LabelNeighbourhood) -> None:
        self.near, self.width = near, near.distance.shape[1]
        labelled = near.code >= 0
        # (Q, K, K): neighbours of the same class
        self.same: Flags = (near.code[:, :, None] == near.code[:, None]) & labelled[:, :, None]
        earlier = np.tril(np.ones((self.width, self.width), dtype=bool), -1)
        self.first: Flags = labelled & ~(self.same & earlier).any(axis=2)  # of its class
        self.labelled = labelled
        least = np.maximum(near.distance[:, -1:] * 1e-6, TINY)
        self.log_distance: Numbers = np.log(np.maximum(near.distance, least))
        # Inverse local dimension: log ratios of distances are smaller in many dimensions.
        self.local_width: Numbers = SMALLEST_WIDTH + (self.log_distance[:, -1:] - self.log_distance).mean(
            axis=1, keepdims=True
        )
        self.log_mean: Numbers = np.log(near.mean_distance)
        self.log_scaled_mean: Numbers = self.log_mean - np.log(near.spread)

    def of_others(self, values: Numbers, otherwise: Numbers) -> Numbers:
        """Smallest value of another class, (Q, K); `otherwise` where there is no other class."""
        others = np.where(self.same | ~self.labelled[:, None], np.inf, values[:, None])
        least = others.min(axis=2)
        return np.asarray(np.where(np.isfinite(least), least, otherwise))

    def margin(self, values: Numbers) -> Numbers:
        """How much nearer this class is than the nearest other; 0 if there is no other."""
        return np.asarray((self.of_others(values, values) - values) / self.local_width)

    def rank(self, values: Numbers) -> Numbers:
        """Log rank of the class among those of the neighbours."""
        nearer = (values[:, None] < values[:, :, None]) & self.first[:, None]
        return np.asarray(np.log1p(nearer.sum(axis=2)))

    def best(self, values: Numbers) -> Numbers:
        """Largest value of a class, (Q,); 0 if no neighbour is labelled."""
        most = np.where(self.first, values, -np.inf).max(axis=1)
        return np.asarray(np.where(np.isfinite(most), most, 0.0))


def _share(nearest: int, shared: _Shared) -> Numbers:
    """Share of the class among the labelled of the nearest images."""
    labelled = shared.labelled[:, None, :nearest].sum(axis=2)
    return np.asarray(shared.same[:, :, :nearest].sum(axis=2) / np.maximum(labelled, 1))


def _weighted_share(shared: _Shared) -> Numbers:
    """Log share of the class, with weights that fall exponentially with distance."""
    distance = shared.near.distance
    away = distance - distance[:, :1]
    typical = np.maximum(away.mean(axis=1, keepdims=True), TINY)
    weight = np.exp(-away / typical) * shared.labelled
    weight /= np.maximum(weight.sum(axis=1, keepdims=True), TINY)
    return np.asarray(np.log((shared.same * weight[:, None]).sum(axis=2) + SMALLEST_SHARE))


def _trust_ratio(shared: _Shared) -> Numbers:
    """How much nearer the image is than the nearest of another class."""
    last = np.broadcast_to(shared.log_distance[:, -1:], shared.log_distance.shape)
    other = shared.of_others(shared.log_distance, last)
    return np.asarray((other - shared.log_distance) / shared.local_width)


def _lead(shared: _Shared) -> Numbers:
    """Share of the most frequent class less that of the next, (Q,)."""
    shares = np.sort(np.where(shared.first, _share(shared.width, shared), 0.0), axis=1)
    second = shares[:, -2] if shared.width > 1 else 0.0
    return np.asarray(shares[:, -1] - second)


def _nearest_ratio(shared: _Shared) -> Numbers:
    """Log ratio of the first distance to the last, (Q,)."""
    away = shared.log_distance[:, 0] - shared.log_distance[:, -1]
    return np.asarray(away / shared.local_width[:, 0])


Column = Callable[[_Shared], Numbers]

# Of a class: its direction (1: larger values favour it; -1: smaller; 0: either) and values (Q, K).
CLASS_COLUMNS: dict[str, tuple[int, Column]] = {
    **{f"share_{count}": (1, partial(_share, count)) for count in (3, 5, 10, 20)},
    "weighted_share": (1, _weighted_share),
    "trust_ratio": (1, _trust_ratio),
    "mean_rank": (-1, lambda shared: shared.rank(shared.log_mean)),
    "scaled_mean_rank": (-1, lambda shared: shared.rank(shared.log_scaled_mean)),
    "mean_margin": (1, lambda shared: shared.margin(shared.log_mean)),
    "scaled_mean_margin": (1, lambda shared: shared.margin(shared.log_scaled_mean)),
    "relative_size": (0, lambda shared: shared.near.relative_size),
}
# Of a query, (Q,): evidence that it is of none of these classes.
QUERY_COLUMNS: dict[str, Column] = {
    "labels": lambda shared: np.log(np.maximum(shared.first.sum(axis=1), 1)),
    "lead": _lead,
    "nearest_ratio": _nearest_ratio,
    "best_mean_margin": lambda shared: shared.best(shared.margin(shared.log_mean)),
    "best_scaled_mean_margin": lambda shared: shared.best(shared.margin(shared.log_scaled_mean)),
    "size": lambda shared: shared.near.size,
    "classes": lambda shared: shared.near.classes,
}
# Of a query, (Q,): evidence that its class is in the gallery.
KNOWN_COLUMNS: dict[str, tuple[int, Column]] = {
    "labels": (-1, QUERY_COLUMNS["labels"]),
    "lead": (1, _lead),
    "nearest_ratio": (0, _nearest_ratio),
    "best_mean_margin": (1, QUERY_COLUMNS["best_mean_margin"]),
    "best_scaled_mean_margin": (1, QUERY_COLUMNS["best_scaled_mean_margin"]),
    "best_scaled_mean": (1, lambda shared: shared.best(-np.exp(np.minimum(shared.log_scaled_mean, FARTHEST_MEAN)))),
    "best_mean": (1, lambda shared: shared.best(shared.log_distance.mean(axis=1, keepdims=True) - shared.log_mean)),
    "local_width": (0, lambda shared: np.log(shared.local_width[:, 0])),
    "nearest": (0, lambda shared: shared.log_distance[:, 0] - shared.log_distance[:, -1]),
    "distance": (-1, lambda shared: shared.log_distance[:, 0]),
}


def known_columns(near: LabelNeighbourhood) -> Numbers:
    """Columns that tell whether the class of a query is in the gallery, (Q, F)."""
    shared = _Shared(near)
    return np.stack([values(shared) for _, values in KNOWN_COLUMNS.values()], axis=-1)


class LabelProbabilities(NamedTuple):
    """Probability of the classes of the nearest images."""

    each: Numbers  # (Q, K), of the class of each image; NaN if it is unlabelled
    first: Flags  # (Q, K), whether the image is the nearest of its class
    none: Numbers  # (Q,), of no class among them


@dataclass(frozen=True)
class LabelModel:
    r"""Conditional logit over the classes of the nearest images, and none of them.

        P(c) = exp(e^(t y) w x_c) / Z,   P(none) = exp(b + v y) / Z,   where all sum to 1

    x_c are the columns of a class, y those of the query, clipped to the range of the prior's data
    and standardised. t makes evidence count more or less in galleries of other sizes.
    """

    names: tuple[str, ...]  # columns of a class, then of the query
    low: tuple[float, ...]
    high: tuple[float, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    temperature: tuple[float, ...]  # of the columns of the query
    bias: float

    @property
    def point(self) -> Numbers:
        """Weights, temperature and bias as one vector."""
        return np.array([*self.weights, *self.temperature, self.bias])

    def probabilities(self, near: LabelNeighbourhood) -> LabelProbabilities:
        """Return the probability of each class."""
        columns = label_columns(near)
        scores, none = scores_of(self.standard(columns), self.point)
        total = logsumexp(np.c_[np.where(columns.first, scores, -np.inf), none], axis=1)
        own = np.where(columns.first, np.exp(scores - total[:, None]), 0.0)
        each = (columns.same * own[:, None]).sum(axis=2)
        labelled = near.code >= 0
        return LabelProbabilities(np.where(labelled, each, np.nan), columns.first, np.exp(none - total))

    def standard(self, columns: "LabelColumns") -> "LabelColumns":
        """Clip and standardise columns."""
        of_class = columns.of_class.shape[-1]
        low, high, centre, scale = (np.array(its) for its in (self.low, self.high, self.centre, self.scale))

        def scaled(values: Numbers, part: slice) -> Numbers:
            clipped = np.clip(values, low[part], high[part])
            return np.asarray((clipped - centre[part]) / scale[part])

        return columns._replace(
            of_class=scaled(columns.of_class, slice(of_class)), of_query=scaled(columns.of_query, slice(of_class, None))
        )


class LabelColumns(NamedTuple):
    """Evidence of Q queries."""

    of_class: Numbers  # (Q, K, F)
    of_query: Numbers  # (Q, G)
    first: Flags  # (Q, K), the nearest image of its class, where the class is judged
    same: Flags  # (Q, K, K)


def label_columns(near: LabelNeighbourhood) -> LabelColumns:
    """Compute the evidence columns."""
    shared = _Shared(near)
    return LabelColumns(
        np.stack([values(shared) for _, values in CLASS_COLUMNS.values()], axis=-1),
        np.stack([values(shared) for values in QUERY_COLUMNS.values()], axis=-1),
        shared.first,
        shared.same,
    )


def scores_of(columns: LabelColumns, point: Numbers) -> tuple[Numbers, Numbers]:
    """Log odds of each class, (Q, K), and of none, (Q,), from standardised columns."""
    of_class, of_query = (its.shape[-1] for its in (columns.of_class, columns.of_query))
    weights, of_none, temperature = np.split(point[:-1], (of_class, of_class + of_query))
    scale = np.exp(columns.of_query @ temperature)[:, None]
    return (np.asarray(columns.of_class @ weights * scale), np.asarray(columns.of_query @ of_none + point[-1]))


@cache
def prior_model() -> LabelModel:
    """Return the model that ships with the package, fitted by `tools/fit_prior.py`."""
    content = files("surefind.confidence").joinpath(PRIOR_FILE).read_bytes()
    return parse(LabelModel, json.loads(content), where=PRIOR_FILE)
