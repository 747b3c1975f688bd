"""Search an index with labelled queries, in its gallery and in thinned ones, and fit to it."""

import zlib
from collections.abc import Callable
from dataclasses import replace
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

FETCHED = 128  # neighbours from which those in thinned galleries are chosen
QUERIES_AT_ONCE = 128
# Shares of the classes, and of the images of each, that are left in thinned galleries.
THINNED = ((1.0, 0.5), (1.0, 0.25), (0.5, 1.0), (0.5, 0.5), (0.25, 1.0))
THINNED_WEIGHT = 0.2  # of a query in a thinned gallery; 1 in the whole one

Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


class _Found(NamedTuple):
    """Nearest rows of Q queries, without the queries themselves and their copies."""

    query: Numbers  # (Q, D), means
    own: Codes  # (Q,), class; -1 if the gallery has none of it
    distance: Numbers  # (Q, F), ascending; infinite where there are fewer
    code: Codes  # (Q, F), class
    drawn: Numbers  # (Q, F), in [0, 1): rows below a share are left in a thinned gallery
    left_out: Numbers  # (Q, L), the same of rows left out that are of the query's class, else inf
    copies: int  # of queries among the rows

    def at(self, rows: Rows) -> "_Found":
        columns = self._asdict()
        return _Found(copies=columns.pop("copies"), **{n: its[rows] for n, its in columns.items()})


class LabelData(NamedTuple):
    """Labelled queries and what they find: Q queries with K neighbours each."""

    near: LabelNeighbourhood
    own: Codes  # (Q,)
    class_codes: Codes  # (Q,), for folds and guarantees
    has_match: Flags  # (Q,), whether the gallery has another image of the class
    thinned: tuple[tuple[Rows, LabelNeighbourhood], ...]  # queries, and what they find there
    unknown: tuple[Rows, LabelNeighbourhood]  # the same in the gallery without their class
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
    width = min(NEIGHBOURS, found.distance.shape[1])
    enough = np.flatnonzero(np.isfinite(found.distance).sum(axis=1) >= width)
    found = found.at(enough)
    left = np.isfinite(found.left_out).sum(axis=1).astype(float)
    whole = np.ones(found.code.shape, dtype=bool)
    mine = found.code == found.own[:, None]
    tables = _thinned_tables(engine, table)
    class_drawn = np.array([1.0, *(_draw(name, "class") for name in table.names)])[found.code + 1]
    thinned = []
    for classes, images in THINNED:
        kept = (found.drawn < images) & ((class_drawn < classes) | mine)
        some = table if images == 1 else tables[images]
        less = (found.left_out < images).sum(axis=1).astype(float)
        thinned.append(_look(found, some, kept, less, max(classes * table.classes, 2)))
    class_codes = queries.class_codes[enough]
    size = np.append(table.counts, 0.0)[found.own]
    return LabelData(
        near=_look(found, table, whole, left, table.classes)[1],
        own=found.own,
        class_codes=class_codes,
        has_match=np.asarray(size > left),
        thinned=tuple(thinned),
        unknown=_look(found, table, ~mine, np.minimum(left, 1), max(table.classes - 1, 1)),
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


def _draw(name: str, what: str) -> float:
    """Pseudo-random number in [0, 1)."""
    return zlib.crc32(f"{what} {name}".encode()) / 2**32


def _thinned_tables(engine: Engine, table: ClassTable) -> dict[float, ClassTable]:
    """Classes of galleries with a share of the images, by this share."""
    empty = replace(table, counts=0 * table.counts, sums=0 * table.sums, squares=0 * table.squares)
    tables = {images: empty for _, images in THINNED if images < 1}
    for block in engine.scan():
        rows, means = engine.rows(block.keys), engine.space.means(block.vectors)
        labels = [label_of(facts, table.field) for facts in rows.metadata]
        drawn = np.array([_draw(name, "image") for name in rows.ids])
        for images in tables:
            kept = np.flatnonzero(drawn < images)
            tables[images] = tables[images].changed(means[kept], [labels[row] for row in kept])
    return tables


class _Row(NamedTuple):
    """What is needed of a row that was found."""

    id: str
    digest: str
    code: int
    drawn: float


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
            drawn = [_draw(name, "image") for name in rows.ids]
            each = map(_Row, rows.ids, rows.digests, codes.tolist(), drawn)
            known.update(zip(new, each, strict=True))
        return [known[key] for key in wanted]

    means = queries.embeddings.mean.double().numpy()
    own = table.codes_of([label_of(facts, table.field) for facts in queries.facts])
    parts, left_out, copies = [], list[list[float]](), 0
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
        found = np.isfinite(near.ranked_by)
        rows = read(near.keys[found])
        code, drawn = np.full(found.shape, -1), np.ones(found.shape)
        code[found], drawn[found] = [row.code for row in rows], [row.drawn for row in rows]
        parts.append((np.where(found, distance, np.inf), code, drawn))
        for query, keys, itself in zip(batch, without, some.self_ids, strict=True):
            gone = [row for row in read(keys) if row.code == own[query] != -1]
            left_out.append([row.drawn for row in gone])
            copies += sum(row.id != itself for row in gone)
            if itself and not gone and own[query] != -1:  # an approximate search missed it
                left_out[-1].append(_draw(itself, "image"))
        progress(int(batch[-1]) + 1)
    width = max(part[0].shape[1] for part in parts)
    fills = (np.inf, -1, 1.0)
    distance, code, drawn = (
        np.concatenate(
            [
                np.pad(one, [(0, 0), (0, width - one.shape[1])], constant_values=fill)
                for one in column
            ]
        )
        for column, fill in zip(zip(*parts, strict=True), fills, strict=True)
    )
    longest = max(map(len, left_out), default=0)
    padded = np.array([its + [np.inf] * (longest - len(its)) for its in left_out]).reshape(
        len(own), longest
    )
    most = int(np.isfinite(distance).sum(axis=1).max(initial=0))
    order = np.argsort(distance, axis=1, kind="stable")[:, :most]
    distance, code, drawn = (
        np.take_along_axis(column, order, axis=1) for column in (distance, code, drawn)
    )
    return _Found(means, own, distance, code, drawn, padded, copies)


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
    parts = [(np.flatnonzero(used), data.near.at(used), 1.0)]
    parts += [
        (rows[used[rows]], near.at(used[rows]), THINNED_WEIGHT) for rows, near in data.thinned
    ]
    model = fit_label_model(
        LabelNeighbourhood.joined([near for _, near, _ in parts]),
        np.concatenate([data.own[rows] for rows, _, _ in parts]),
        weights=np.concatenate([np.full(len(rows), weight) for rows, _, weight in parts]),
        prior=prior,
    )
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
