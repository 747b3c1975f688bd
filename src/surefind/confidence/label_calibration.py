"""Search an index with labelled queries, and fit the label model to what they find."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.confidence.class_table import ClassTable, Codes, Numbers, label_of
from surefind.confidence.copies import copies_among, nearest_others
from surefind.confidence.evidence import NEIGHBOURS
from surefind.confidence.label_model import (
    KNOWN_COLUMNS,
    LabelModel,
    LabelNeighbourhood,
    fit_label_model,
    known_columns,
    label_neighbourhood,
)
from surefind.confidence.labelled_queries import LabelledQueries
from surefind.confidence.match_model import Logistic, fit_logistic, folds_of
from surefind.engines.base import Engine, Keys
from surefind.engines.knn import Nearest
from surefind.functional.ranking import ranking_keys

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
    size = np.where(own >= 0, table.counts[np.maximum(own, 0)], 0)
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


class _Row(NamedTuple):
    """What is needed of a row that was found."""

    id: str
    digest: str
    code: int


def _copies(
    engine: Engine,
    queries: LabelledQueries,
    means: Numbers,
    own: Codes,
    read: Callable[[Keys], list[_Row]],
    rows: Rows,
    near: Nearest,
) -> Flags:
    """Return which nearest rows are the query or a copy of it, and have no other label."""
    out = copies_among(near, engine.space.means(near.vectors), means[rows])
    read(near.keys[np.isfinite(near.ranked_by)])
    for number, query in enumerate(rows):
        digest = queries.digests[query] if queries.digests else ""
        for place, row in enumerate(read(near.keys[number, : near.found[number]])):
            same = out[number, place] or (row.digest == digest != "")
            codes = {row.code, int(own[query])} - {-1}
            itself = row.id == queries.self_ids[query]
            out[number, place] = itself or (same and len(codes) < 2)
    return out


def _search(
    engine: Engine, queries: LabelledQueries, table: ClassTable, progress: Callable[[int], None]
) -> _Found:
    """Search batch by batch; every row that is found is read once."""
    known = dict[object, _Row]()

    def read(keys: Keys) -> list[_Row]:
        wanted = keys.tolist()
        new = [key for key in dict.fromkeys(wanted) if key not in known]
        if new:
            rows = engine.rows(np.array(new, dtype=keys.dtype))
            codes = table.codes_of([label_of(facts, table.field) for facts in rows.metadata])
            each = map(_Row, rows.ids, rows.digests, codes.tolist())
            known.update(zip(new, each, strict=True))
        return [known[key] for key in wanted]

    means = queries.embeddings.mean.double().numpy()
    own = table.codes_of([label_of(facts, table.field) for facts in queries.facts])
    parts, left_out, copies = [], [], 0
    for start in range(0, len(own), QUERIES_AT_ONCE):
        batch = np.arange(start, min(start + QUERIES_AT_ONCE, len(own)))
        some = queries.at(batch)

        near, without = nearest_others(
            engine,
            some.embeddings,
            FETCHED,
            partial(_copies, engine, some, means[batch], own[batch], read),
        )
        distance = ranking_keys(
            means[batch],
            engine.space.means(near.vectors),
            near.var,
            family="gaussian",
            ranking="mean",
        )
        rows = [read(keys) for keys in near.keys]
        parts.append(
            (
                np.where(np.isfinite(near.ranked_by), distance, np.inf),
                np.array([[row.code for row in its] for its in rows], dtype=np.int64),
            )
        )
        for query, keys, itself in zip(batch, without, some.self_ids, strict=True):
            gone = [row for row in read(keys) if row.code == own[query] != -1]
            copies += sum(row.id != itself for row in gone)
            inside = itself != "" and own[query] != -1  # an approximate search may miss it
            left_out.append(max(len(gone), int(inside)))
        progress(int(batch[-1]) + 1)
    width = max(part[0].shape[1] for part in parts)
    distance, code = (
        np.concatenate(
            [
                np.pad(one, [(0, 0), (0, width - one.shape[1])], constant_values=fill)
                for one in column
            ]
        )
        for column, fill in zip(zip(*parts, strict=True), (np.inf, -1), strict=True)
    )
    order = np.argsort(distance, axis=1, kind="stable")
    distance, code = (np.take_along_axis(column, order, axis=1) for column in (distance, code))
    return _Found(means, own, distance, code, np.array(left_out, dtype=float), copies)


class LabelFit(NamedTuple):
    """Fitted models, and what they say of the queries without having seen their classes."""

    model: LabelModel
    known: Logistic
    each: Numbers  # (Q, K), probability of the class of each neighbour
    novelty: Numbers  # (Q,)
    unknown_novelty: Numbers  # of the queries in `LabelData.unknown`


def fit_labels(data: LabelData, prior: LabelModel) -> LabelFit:
    """Fit to all queries, and cross-fit by class."""
    model, known = _fit(data, np.ones(len(data.own), dtype=bool), prior)
    each, novelty = np.empty(data.near.code.shape), np.empty(len(data.own))
    rows, unknown = data.unknown
    unknown_novelty = np.empty(len(rows))
    for fold in range(int(data.fold.max()) + 1):
        judged = data.fold == fold
        other_model, other_known = _fit(data, ~judged, prior)
        each[judged] = other_model.probabilities(data.near.at(judged)).each
        novelty[judged] = novelty_of_labels(other_known, data.near.at(judged))
        if len(rows):
            of_fold = judged[rows]
            unknown_novelty[of_fold] = novelty_of_labels(other_known, unknown.at(of_fold))
    return LabelFit(model, known, each, novelty, unknown_novelty)


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
    return model, known


def novelty_of_labels(known: Logistic, near: LabelNeighbourhood) -> Numbers:
    """Log odds that the class of a query is not in the gallery, (Q,)."""
    return -known.log_odds(known_columns(near))
