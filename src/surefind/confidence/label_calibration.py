"""Search an index with labelled queries, and fit the label model to what they find."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.confidence.class_table import ClassTable, Codes, Numbers, label_of
from surefind.confidence.evidence import NEIGHBOURS
from surefind.confidence.label_model import (
    KNOWN_COLUMNS,
    LabelModel,
    LabelNeighbourhood,
    fit_label_model,
    known_columns,
    label_neighbourhood,
)
from surefind.confidence.labelled_queries import (
    LabelledQueries,
    RowCache,
    nearest_without_copies,
)
from surefind.confidence.match_model import Logistic, fit_logistic, folds_of
from surefind.engines.base import Engine

FETCHED = 128  # neighbours of a query, of which some are left without its class
QUERIES_AT_ONCE = 128

Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


class _Found(NamedTuple):
    """Nearest rows of Q queries, without the queries themselves and their copies."""

    query: Numbers  # (Q, D), means
    own: Codes  # (Q,), class; -1 if the gallery has none of it
    distance: Numbers  # (Q, F), ascending; infinite where there are fewer
    code: Codes  # (Q, F), class
    left_out: Numbers  # (Q,), rows left out that are of the query's class
    copies: int  # of queries among the rows


class LabelData(NamedTuple):
    """Labelled queries and what they find: Q queries with K neighbours each."""

    near: LabelNeighbourhood
    own: Codes  # (Q,)
    class_codes: Codes  # (Q,), for folds and guarantees
    has_match: Flags  # (Q,), whether the gallery has another image of the class
    unknown: tuple[Rows, LabelNeighbourhood]  # queries, and what they find without their class
    copies: int  # of queries, left out
    fold: Rows  # (Q,)

    @property
    def right(self) -> Flags:
        """Which neighbours are matches, (Q, K)."""
        return np.asarray((self.near.code == self.own[:, None]) & (self.own[:, None] >= 0))


def collect_label_data(
    engine: Engine,
    queries: LabelledQueries,
    table: ClassTable,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> LabelData:
    """Search for each query; queries with fewer than NEIGHBOURS other images are dropped."""
    found = _search(engine, queries, table, progress)
    every = np.ones(found.code.shape, dtype=bool)
    mine = found.code == found.own[:, None]
    rows, near = _look(found, table, every, found.left_out, table.classes)
    own, left = found.own[rows], found.left_out[rows]
    class_codes = queries.class_codes[rows]
    size = np.append(table.counts, 0.0)[own]
    others, unknown = _look(
        found, table, ~mine, np.minimum(found.left_out, 1), max(table.classes - 1, 1)
    )
    return LabelData(
        near=near,
        own=own,
        class_codes=class_codes,
        has_match=np.asarray(size > left),
        unknown=(np.searchsorted(rows, others), unknown),
        copies=queries.copies + found.copies,
        fold=folds_of(class_codes),
    )


def _look(
    found: _Found, table: ClassTable, kept: Flags, left: Numbers, classes: float
) -> tuple[Rows, LabelNeighbourhood]:
    """Return the queries with enough neighbours in a gallery, and these neighbours."""
    distance = np.where(kept, found.distance, np.inf)
    width = min(NEIGHBOURS, distance.shape[1])
    rows = np.flatnonzero(np.isfinite(distance).sum(axis=1) >= width)
    order = np.argsort(distance[rows], axis=1, kind="stable")[:, :width]
    return rows, label_neighbourhood(
        table,
        found.query[rows],
        np.take_along_axis(distance[rows], order, axis=1),
        np.take_along_axis(found.code[rows], order, axis=1),
        own=found.own[rows],
        left_out=left[rows],
        classes=np.full(len(rows), classes),
    )


def _search(
    engine: Engine, queries: LabelledQueries, table: ClassTable, progress: Callable[[int], None]
) -> _Found:
    """Search batch by batch; every row that is found is read once."""
    cache, field = RowCache(engine), table.field
    means = queries.embeddings.mean.double().numpy()
    labels = [label_of(facts, field) for facts in queries.facts]
    distance = np.full((len(labels), FETCHED), np.inf)
    code = np.full(distance.shape, -1)
    left_out, copies = np.zeros(len(labels)), 0
    for start in range(0, len(labels), QUERIES_AT_ONCE):
        batch = np.arange(start, min(start + QUERIES_AT_ONCE, len(labels)))
        near, without = nearest_without_copies(engine, queries.at(batch), cache, FETCHED, field)
        found = np.isfinite(near.ranked_by)
        rows, places = np.nonzero(found)
        distance[batch[rows], places] = near.distance[found]
        hits = cache.read(near.keys[found])
        code[batch[rows], places] = table.codes_of([label_of(hit[2], field) for hit in hits])
        for query, keys in zip(batch.tolist(), without, strict=True):
            name, label = queries.self_ids[query], labels[query]
            gone = [hit[0] for hit in cache.read(keys) if label_of(hit[2], field) == label]
            if label is not None:
                copies += sum(hit != name for hit in gone)
                left_out[query] = max(len(gone), name != "")  # an approximate search may miss it
        progress(int(batch[-1]) + 1)
    most = max(1, int(np.isfinite(distance).sum(axis=1).max(initial=0)))
    order = np.argsort(distance, axis=1, kind="stable")[:, :most]
    return _Found(
        means,
        table.codes_of(labels),
        np.take_along_axis(distance, order, axis=1),
        np.take_along_axis(code, order, axis=1),
        left_out,
        copies,
    )


class LabelFit(NamedTuple):
    """Fitted models, and what they say of the queries without having seen their classes."""

    model: LabelModel
    known: Logistic
    each: Numbers  # (Q, K), probability of the class of each neighbour
    log_odds: Numbers  # (Q,), that the class is in the gallery
    unknown_each: Numbers  # the same of the queries in `LabelData.unknown`
    unknown_log_odds: Numbers


def fit_labels(data: LabelData, prior: LabelModel) -> LabelFit:
    """Fit to all queries, and cross-fit by class."""
    model, known = _fit(data, np.ones(len(data.own), dtype=bool), prior)
    rows, unknown = data.unknown
    each, log_odds = np.empty(data.near.code.shape), np.empty(len(data.own))
    unknown_each, unknown_log_odds = np.empty(unknown.code.shape), np.empty(len(rows))
    for fold in range(int(data.fold.max()) + 1):
        judged = data.fold == fold
        other_model, other_known = _fit(data, ~judged, prior)
        for near, some, probability, odds in (
            (data.near, judged, each, log_odds),
            (unknown, judged[rows], unknown_each, unknown_log_odds),
        ):
            its = near.at(some)
            probability[some] = other_model.probabilities(its).each
            odds[some] = other_known.log_odds(known_columns(its))
    return LabelFit(model, known, each, log_odds, unknown_each, unknown_log_odds)


def _fit(data: LabelData, used: Flags, prior: LabelModel) -> tuple[LabelModel, Logistic]:
    """Fit to the queries that are used."""
    model = fit_label_model(data.near.at(used), data.own[used], prior=prior)
    rows, unknown = data.unknown
    inside = known_columns(data.near.at(used & data.has_match))
    outside = known_columns(unknown.at(used[rows]))
    known = fit_logistic(
        np.concatenate([inside, outside]),
        np.arange(len(inside) + len(outside)) < len(inside),
        directions=[direction for direction, _ in KNOWN_COLUMNS.values()],
    )
    balance = np.log(max(len(inside), 1) / max(len(outside), 1))
    return model, replace(known, bias=float(known.bias - balance))  # as many known as unknown
