"""Probability of each label for a query, from the labels of its nearest images."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.confidence.class_table import ClassTable, Codes, Numbers
from surefind.validation import parse

PRIOR_FILE = "prior.json"
TYPICAL = 10.0  # images of average spread that the spread of a class is shrunk with
NEAREST_MEAN = 0.1  # smallest distance to a mean after correction, relative to that before
FARTHEST_MEAN = 10.0  # largest log distance to a mean relative to the spread, which may be 0
SMALLEST_SHARE = 0.02  # added to shares before their logarithm
SMALLEST_WIDTH = 1e-3  # added to the inverse local dimension
QUERIES_AT_ONCE = 64  # whose class means are gathered
JUDGED_AT_ONCE = 512  # queries, with K x K comparisons of their neighbours
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

    def at(self, rows: Any) -> "LabelNeighbourhood":
        """Select queries."""
        return LabelNeighbourhood(*(column[rows] for column in self))

    @staticmethod
    def joined(parts: Sequence["LabelNeighbourhood"]) -> "LabelNeighbourhood":
        return LabelNeighbourhood(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def label_neighbourhood(
    table: ClassTable,
    query: NDArray[np.floating],
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

    Q queries (Q, D) have K nearest images with these distances, ascending, and classes `code`, (Q, K). If their
    `own` classes are known, `left_out` images of these are the query or its copies, (Q,). `classes` is the
    number to choose from, (Q,), by default all of the table.
    """
    known = np.maximum(code, 0)
    if not len(table.names):
        table = table.changed(np.zeros((1, query.shape[1])), ["-"])  # for lookups only
    products, lengths = np.empty(known.shape), np.empty((len(query), 1))
    for start in range(0, len(query), QUERIES_AT_ONCE):
        some = slice(start, start + QUERIES_AT_ONCE)
        wide = query[some].astype(np.float64)
        codes = known[some]  # of few classes for each query: one product each
        first = (codes[:, :, None] == codes[:, None]).argmax(axis=2)
        rows, places = np.nonzero(first == np.arange(codes.shape[1]))
        products[rows + start, places] = np.einsum("pd,pd->p", wide[rows], table.sums[codes[rows, places]])
        products[some] = np.take_along_axis(products[some], first, axis=1)
        np.square(wide).sum(axis=1, out=lengths[some, 0])
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


class _Evidence:
    """What the columns share; each part is computed once."""

    def __init__(self, near: LabelNeighbourhood) -> None:
        self.near = near
        self.labelled: Flags = near.code >= 0
        # (Q, K, K): neighbours of the same class
        self.same: Flags = (near.code[:, :, None] == near.code[:, None]) & self.labelled[:, :, None]
        self.first: Flags = self.labelled & (self.same.argmax(axis=2) == np.arange(near.code.shape[1]))  # of its class
        least = np.maximum(near.distance[:, -1:] * 1e-6, TINY)
        self.log_distance: Numbers = np.log(np.maximum(near.distance, least))
        # Inverse local dimension: log ratios of distances are smaller in many dimensions.
        ratios = self.log_distance[:, -1:] - self.log_distance
        self.local_width: Numbers = SMALLEST_WIDTH + ratios.mean(axis=1, keepdims=True)
        self.log_mean: Numbers = np.log(near.mean_distance)
        self.log_scaled_mean: Numbers = self.log_mean - np.log(near.spread)
        values = np.array([self.log_mean, self.log_scaled_mean, self.log_distance])  # (3, Q, K)
        otherwise = values.copy()
        otherwise[2] = self.log_distance[:, -1:]
        # (Q, K, K): share of each class among the labelled of the 1, 2, ... nearest images
        counts = np.maximum(np.cumsum(self.labelled, axis=1), 1)
        self.shares: Numbers = np.cumsum(self.same, axis=2) / counts[:, None]
        self.margins: Numbers = self.margin(values, otherwise)
        self.mean_ranks: Numbers = self.rank(values[:2])
        own = -np.exp(np.minimum(self.log_scaled_mean, FARTHEST_MEAN))
        typical = self.log_distance.mean(axis=1, keepdims=True) - self.log_mean
        self.bests: Numbers = self.best(np.array([*self.margins[:2], own, typical]))  # (4, Q)

    def share(self, nearest: int) -> Numbers:
        """Share of the class among the labelled of the nearest images."""
        return self.shares[:, :, min(nearest, self.shares.shape[2]) - 1]

    def margin(self, values: Numbers, otherwise: Numbers) -> Numbers:
        """How much nearer this class is than the nearest other; `otherwise` stands for a missing other."""
        others = np.where(self.same | ~self.labelled[:, None], np.inf, values[..., None, :]).min(axis=-1)
        return np.asarray((np.where(np.isfinite(others), others, otherwise) - values) / self.local_width)

    def rank(self, values: Numbers) -> Numbers:
        """Log rank of the class among those of the neighbours."""
        nearer = (values[..., None, :] < values[..., None]) & self.first[:, None]
        return np.asarray(np.log1p(nearer.sum(axis=-1)))

    def best(self, values: Numbers) -> Numbers:
        """Largest value of a class, (Q,); 0 if no neighbour is labelled."""
        most = np.where(self.first, values, -np.inf).max(axis=-1)
        return np.asarray(np.where(np.isfinite(most), most, 0.0))


def _weighted_share(its: _Evidence) -> Numbers:
    """Log share of the class, with weights that fall exponentially with distance."""
    away = its.near.distance - its.near.distance[:, :1]
    typical = np.maximum(away.mean(axis=1, keepdims=True), TINY)
    weight = np.exp(-away / typical) * its.labelled
    weight /= np.maximum(weight.sum(axis=1, keepdims=True), TINY)
    return np.asarray(np.log((its.same * weight[:, None]).sum(axis=2) + SMALLEST_SHARE))


def _lead(its: _Evidence) -> Numbers:
    """Share of the most frequent class less that of the next, (Q,)."""
    shares = np.sort(np.where(its.first, its.shares[:, :, -1], 0.0), axis=1)
    return np.asarray(shares[:, -1] - (shares[:, -2] if shares.shape[1] > 1 else 0.0))


Column = Callable[[_Evidence], Numbers]

# Of a class: its direction (1: larger values favour it; -1: smaller; 0: either) and values (Q, K).
CLASS_COLUMNS: dict[str, tuple[int, Column]] = {
    "share_3": (1, lambda its: its.share(3)),
    "share_5": (1, lambda its: its.share(5)),
    "share_10": (1, lambda its: its.share(10)),
    "share_20": (1, lambda its: its.share(20)),
    "weighted_share": (1, _weighted_share),
    "trust_ratio": (1, lambda its: its.margins[2]),
    "mean_rank": (-1, lambda its: its.mean_ranks[0]),
    "scaled_mean_rank": (-1, lambda its: its.mean_ranks[1]),
    "mean_margin": (1, lambda its: its.margins[0]),
    "scaled_mean_margin": (1, lambda its: its.margins[1]),
    "relative_size": (0, lambda its: its.near.relative_size),
}
# Of a query, (Q,): evidence that it is of none of these classes.
QUERY_COLUMNS: dict[str, Column] = {
    "labels": lambda its: np.log(np.maximum(its.first.sum(axis=1), 1)),
    "lead": _lead,
    "nearest_ratio": lambda its: (its.log_distance[:, 0] - its.log_distance[:, -1]) / its.local_width[:, 0],
    "best_mean_margin": lambda its: its.bests[0],
    "best_scaled_mean_margin": lambda its: its.bests[1],
    "size": lambda its: its.near.size,
    "classes": lambda its: its.near.classes,
}
# Of a query, (Q,): evidence that its class is in the gallery.
KNOWN_COLUMNS: dict[str, tuple[int, Column]] = {
    "labels": (-1, QUERY_COLUMNS["labels"]),
    "lead": (1, _lead),
    "nearest_ratio": (0, QUERY_COLUMNS["nearest_ratio"]),
    "best_mean_margin": (1, QUERY_COLUMNS["best_mean_margin"]),
    "best_scaled_mean_margin": (1, QUERY_COLUMNS["best_scaled_mean_margin"]),
    "best_scaled_mean": (1, lambda its: its.bests[2]),
    "best_mean": (1, lambda its: its.bests[3]),
    "local_width": (0, lambda its: np.log(its.local_width[:, 0])),
    "nearest": (0, lambda its: its.log_distance[:, 0] - its.log_distance[:, -1]),
    "distance": (-1, lambda its: its.log_distance[:, 0]),
}


class LabelColumns(NamedTuple):
    """Evidence of Q queries."""

    of_class: Numbers  # (Q, K, F)
    of_query: Numbers  # (Q, G)
    known: Numbers  # (Q, H), whether the class of the query is in the gallery
    first: Flags  # (Q, K), the nearest image of its class, where the class is judged
    same: Flags  # (Q, K, K)


def label_columns(near: LabelNeighbourhood) -> LabelColumns:
    """Compute the evidence columns."""
    if len(near.code) > JUDGED_AT_ONCE:
        blocks = (near.at(slice(at, at + JUDGED_AT_ONCE)) for at in range(0, len(near.code), JUDGED_AT_ONCE))
        return LabelColumns(*map(np.concatenate, zip(*map(label_columns, blocks), strict=True)))
    its = _Evidence(near)
    of_class = [values(its) for _, values in CLASS_COLUMNS.values()]
    of_query = {name: values(its) for name, values in QUERY_COLUMNS.items()}
    known = [of_query[name] if name in of_query else values(its) for name, (_, values) in KNOWN_COLUMNS.items()]
    parts = [np.stack(columns, axis=-1) for columns in (of_class, list(of_query.values()), known)]
    return LabelColumns(parts[0], parts[1], parts[2], its.first, its.same)


class LabelProbabilities(NamedTuple):
    """Probability of the classes of the nearest images."""

    each: Numbers  # (Q, K), of the class of each image; NaN if it is unlabelled
    first: Flags  # (Q, K), whether the image is the nearest of its class
    none: Numbers  # (Q,), of no class among them
    known: Numbers  # (Q, H), columns that tell whether the class is in the gallery


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

    @cached_property
    def point(self) -> Numbers:
        """Weights, temperature and bias as one vector."""
        return np.array([*self.weights, *self.temperature, self.bias])

    @cached_property
    def _ranges(self) -> Numbers:
        """Range, mean and deviation of each column, (4, F)."""
        return np.array([self.low, self.high, self.centre, self.scale])

    def probabilities(self, near: LabelNeighbourhood) -> LabelProbabilities:
        """Return the probability of each class."""
        columns = label_columns(near)
        scores, none = scores_of(self.standard(columns), self.point)
        every = np.column_stack([np.where(columns.first, scores, -np.inf), none])
        every = np.exp(every - every.max(axis=1, keepdims=True))
        every /= every.sum(axis=1, keepdims=True)
        each = (columns.same * every[:, None, :-1]).sum(axis=2)
        return LabelProbabilities(np.where(near.code >= 0, each, np.nan), columns.first, every[:, -1], columns.known)

    def standard(self, columns: LabelColumns) -> LabelColumns:
        """Clip and standardise columns."""
        split = columns.of_class.shape[-1]
        ranges = self._ranges[:, :split], self._ranges[:, split:]
        scaled = []
        for values, (low, high, centre, scale) in zip((columns.of_class, columns.of_query), ranges, strict=True):
            standard = np.clip(values, low, high)
            standard -= centre
            scaled.append(np.divide(standard, scale, out=standard))
        return columns._replace(of_class=scaled[0], of_query=scaled[1])


def scores_of(columns: LabelColumns, point: Numbers) -> tuple[Numbers, Numbers]:
    """Log odds of each class, (Q, K), and of none, (Q,), from standardised columns."""
    of_class, of_query = (its.shape[-1] for its in (columns.of_class, columns.of_query))
    weights, of_none, temperature = point[:of_class], point[of_class:][:of_query], point[of_class + of_query : -1]
    scale = np.exp(columns.of_query @ temperature)[:, None]
    return (np.asarray(columns.of_class @ weights * scale), np.asarray(columns.of_query @ of_none + point[-1]))


@cache
def prior_model() -> LabelModel:
    """Return the model that ships with the package, fitted by `tools/fit_prior.py`."""
    content = files("surefind.confidence").joinpath(PRIOR_FILE).read_bytes()
    return parse(LabelModel, json.loads(content), where=PRIOR_FILE)
