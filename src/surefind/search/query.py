"""Answer queries: search the engine, judge the hits, make results."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.confidence.calibration import Calibrated
from surefind.confidence.class_table import LABEL, ClassTable, label_of
from surefind.confidence.conformal import MATCH
from surefind.confidence.copies import copies_among
from surefind.confidence.drift import (
    FEWEST,
    Drift,
    compare,
    first_hit_columns,
    label_reference,
)
from surefind.confidence.evidence import NEIGHBOURS, distances_to, embeddings_of
from surefind.confidence.label_model import LabelNeighbourhood, label_neighbourhood
from surefind.confidence.match_model import ConfidenceModel
from surefind.embeddings import Embeddings
from surefind.engines.base import Engine, Rows
from surefind.engines.filters import Where
from surefind.engines.knn import Nearest, names_of, nearest
from surefind.errors import InvalidArgument, SurefindError
from surefind.functional import expand, hit_match_probability
from surefind.functional.distance import HitDistances
from surefind.functional.ranking import RANKINGS
from surefind.search.hits import Hit, SearchResult
from surefind.validation import check_choice, check_number, check_whole

QUERIES_AT_ONCE = 1024
TOO_FEW = f"fewer than {NEIGHBOURS} images were found, too few to judge a hit by its neighbours"

NOT_PLAIN = (
    "no confidence with where, expand, several views or another ranking: the index is calibrated "
    "without labels, for plain searches"
)
CONFIDENCE = "confidence"  # ranking by the probability of a match

Wanted = Where | Sequence[str] | str | None


class UnknownItem(SurefindError):
    """No image of the index has this id."""


class SearchRequest(NamedTuple):
    """Checked options of a search."""

    k: int
    ranking: str  # of the hits
    candidates: str  # ranking of the candidates: mean or expected
    where: Where | None
    radius: float | None  # a distance, not squared
    expand: int  # neighbours for query expansion
    inside: bool  # queries are rows of the index, left out of hits and neighbours
    plain: bool  # the searches that a calibration was made with


def search_request(
    engine: Engine,
    k: int,
    ranking: str | None,
    where: Wanted,
    *,
    radius: float | None = None,
    expand: int = 0,
    inside: bool = False,
    views: int = 1,
    calibrated: bool = False,
) -> SearchRequest:
    """Check the options of a search.

    `ranking` defaults to confidence if the index is calibrated, else to the engine's own. k may
    exceed the engine's limit, less a query inside, only if the index has fewer rows.
    """
    own = engine.space.ranking
    ranking = (CONFIDENCE if calibrated else own) if ranking is None else ranking
    check_choice("ranking", ranking, (*RANKINGS, CONFIDENCE))
    if ranking == CONFIDENCE and not calibrated:
        raise InvalidArgument(
            "ranking", expected="mean or expected: the index is not calibrated", got=ranking
        )
    check_whole("k", k)
    check_whole("expand", expand, smallest=0)
    if radius is not None:
        check_number("radius", radius, "a positive number", lambda x: x > 0)
    if where is not None and not isinstance(where, Where):
        where = Where.parse([where] if isinstance(where, str) else where)
    most, requested = engine.max_k - inside, max(k, expand)
    if requested > most and engine.count(where) > engine.max_k:
        raise InvalidArgument(
            "k" if k == requested else "expand",
            expected=f"at most {most:,}, the limit of this index's engine",
            got=f"{requested:,}",
        )
    candidates = own if ranking == CONFIDENCE else ranking
    plain = where is None and not expand and views == 1 and candidates == own
    return SearchRequest(int(k), ranking, candidates, where, radius, int(expand), inside, plain)


class Judge(NamedTuple):
    """Calibration of an index, and the classes of its images if it rests on them."""

    calibrated: Calibrated
    classes: ClassTable | None
    guaranteed: bool  # whether the guarantee is for this gallery


def answer(
    engine: Engine,
    query: Embeddings,
    names: Sequence[str],
    request: SearchRequest,
    judge: Judge | str,
) -> list[SearchResult]:
    """Return one result per query; their names are ids if they are inside the index.

    `judge` is a calibration, or the reason why there is no confidence.
    """
    engine.space.check(query)
    if not isinstance(judge, str) and judge.classes is None and not request.plain:
        judge = NOT_PLAIN
    k = request.k if isinstance(judge, str) else max(request.k, NEIGHBOURS)
    results: list[SearchResult] = []
    for start in range(0, len(query), QUERIES_AT_ONCE):
        rows = slice(start, start + QUERIES_AT_ONCE)
        some = _expanded(engine, query[rows], request) if request.expand else query[rows]
        count = k + request.inside
        near = nearest(engine, some, count, ranking=request.candidates, where=request.where)
        if request.inside:
            near = near.besides(names_of(engine, near), names[rows], k)
        results += _describe(engine, some, near, names[rows], request, judge)
    return results


def drift_of(engine: Engine, judge: Judge, query: Embeddings) -> tuple[Drift, ...]:
    """Return the evidence columns in which queries differ from the calibration queries."""
    calibration = judge.calibrated.calibration
    engine.space.check(query)
    if not calibration.reference_quantiles:
        raise InvalidArgument(
            "index", expected="a calibration with queries of its own", got="the prior calibration"
        )
    near = nearest(engine, query, NEIGHBOURS, ranking=calibration.origin.ranking)
    enough = np.flatnonzero(near.found == NEIGHBOURS)
    if len(enough) < FEWEST:
        raise InvalidArgument(
            "queries",
            expected=f"at least {FEWEST} queries that find {NEIGHBOURS} images each",
            got=f"{len(enough)} of {len(query)}",
        )
    near, query = near.at(enough), query[enough.tolist()]
    if judge.classes is not None:
        distance = distances_to(engine.space, query, near).distance.numpy()
        rows = _rows_of(engine, near)
        found = _labels_near(judge.classes, query, distance, rows.labels(judge.classes.field))
        sure = np.nanmax(calibration.judge_labels(found).confidence, axis=1, initial=0.0)
        return compare(calibration.reference_quantiles, label_reference(found, sure))
    assert isinstance(calibration.model, ConfidenceModel)
    neighbourhood = judge.calibrated.collect_neighbourhood(engine, query, near)
    sure = calibration.model.confidence(neighbourhood).max(axis=1)
    now = first_hit_columns(neighbourhood, calibration.model.names, sure)
    return compare(calibration.reference_quantiles, now)


def _expanded(engine: Engine, query: Embeddings, request: SearchRequest) -> Embeddings:
    near = nearest(engine, query, request.expand, ranking=request.candidates, where=request.where)
    mean, spread = query.mean.clone(), query.spread.clone()
    for count in np.unique(near.found[near.found > 0]).tolist():
        rows = np.flatnonzero(near.found == count)
        around = embeddings_of(engine.space, near.at((rows, slice(count))))
        own = expand(query[rows.tolist()], around)
        mean[rows], spread[rows] = own.mean, own.spread
    return query.replace(mean, spread)


class _FoundRows(NamedTuple):
    """Rows of hits: queries share them."""

    rows: Rows
    place: NDArray[np.int64]  # (Q, K), of each hit among the rows

    def labels(self, field: str) -> list[list[str | None]]:
        each = [label_of(facts, field) for facts in self.rows.metadata]
        return [[each[place] for place in its] for its in self.place.tolist()]


def _rows_of(engine: Engine, near: Nearest) -> _FoundRows:
    keys, place = np.unique(near.keys, return_inverse=True)
    return _FoundRows(engine.rows(keys), place.reshape(near.keys.shape))


def _labels_near(
    classes: ClassTable,
    query: Embeddings,
    distance: NDArray[np.float64],
    labels: Sequence[Sequence[str | None]],
    *,
    own: Sequence[str | None] | None = None,
) -> LabelNeighbourhood:
    """Neighbourhood of queries, with the labels of their nearest images; `own`: of the queries."""
    code = np.array([classes.codes_of(its) for its in labels])
    mine = None if own is None else classes.codes_of(own)
    return label_neighbourhood(
        classes,
        query.mean.double().numpy(),
        distance,
        code,
        own=mine,
        left_out=None if mine is None else (mine >= 0).astype(float),
    )


def _describe(
    engine: Engine,
    query: Embeddings,
    near: Nearest,
    names: Sequence[str],
    request: SearchRequest,
    judge: Judge | str,
) -> list[SearchResult]:
    """Make one result per query; for a calibrated one `near` has more rows than hits."""
    query = query.detach().to("cpu").to(torch.float32)
    results = [
        SearchResult(
            query=name,
            hits=(),
            query_var=float(var),
            ranking=request.ranking,
            reranked=request.candidates != engine.space.ranking,
            uncalibrated=judge if isinstance(judge, str) else TOO_FEW,
        )
        for name, var in zip(names, engine.space.var(query), strict=True)
    ]
    for count in np.unique(near.found[near.found > 0]).tolist():  # queries with equally many hits
        rows = np.flatnonzero(near.found == count)
        some, its = query[rows.tolist()], near.at((rows, slice(count)))
        judged = not isinstance(judge, str) and (judge.classes is not None or count >= NEIGHBOURS)
        if not judged:
            its = its.at((slice(None), slice(request.k)))
        answers = _judge(
            engine,
            some,
            its,
            [names[row] for row in rows.tolist()],
            request,
            judge if judged else None,
        )
        for row, changes in zip(rows, answers, strict=True):
            results[row] = replace(results[row], **changes)
    return results


def _judge(
    engine: Engine,
    query: Embeddings,
    near: Nearest,
    names: Sequence[str],
    request: SearchRequest,
    judge: Judge | str | None,
) -> list[dict[str, Any]]:
    """Return the hits of queries with equally many, and what is known of them."""
    distances = distances_to(engine.space, query, near)
    found = _rows_of(engine, near)
    field = LABEL if not isinstance(judge, Judge) else judge.calibrated.calibration.origin.field
    labels = found.labels(field)
    columns: dict[str, Any] = {
        "distance": distances.distance.tolist(),
        "expected_distance": distances.expected.tolist(),
        "std": distances.std.tolist(),
        "var": near.var.tolist(),
        "label": labels,
    }
    if request.radius is not None:
        columns["p_within"] = hit_match_probability(
            query, embeddings_of(engine.space, near), request.radius, per_query=near.keys.shape[1]
        ).tolist()
    order = np.broadcast_to(np.arange(near.keys.shape[1]), near.keys.shape)
    answers: list[dict[str, Any]] = [{} for _ in names]
    if isinstance(judge, Judge):
        confidence, answers = _confidence(
            engine, query, near, names, request, judge, distances, labels
        )
        columns["confidence"] = [
            [None if np.isnan(one) else one for one in its] for its in confidence.tolist()
        ]
        if request.ranking == CONFIDENCE:
            order = np.argsort(-np.nan_to_num(confidence, nan=-1.0), axis=1, kind="stable")
    paths = [its.get("path") for its in found.rows.metadata]
    for number, changes in enumerate(answers):
        hits = []
        for place in order[number, : request.k].tolist():
            which = int(found.place[number, place])
            path = paths[which]
            hits.append(
                Hit(
                    id=found.rows.ids[which],
                    path=None if path is None else str(path),
                    metadata=found.rows.metadata[which],
                    **{name: its[number][place] for name, its in columns.items()},
                )
            )
        changes["hits"] = tuple(hits)
        if isinstance(judge, Judge):
            changes["confidence"] = hits[0].confidence
    return answers


def _confidence(
    engine: Engine,
    query: Embeddings,
    near: Nearest,
    names: Sequence[str],
    request: SearchRequest,
    judge: Judge,
    distances: HitDistances,
    labels: list[list[str | None]],
) -> tuple[NDArray[np.float64], list[dict[str, Any]]]:
    """Return the confidence of each hit, (Q, K), NaN if unknown, and the verdicts."""
    calibration, classes = judge.calibrated.calibration, judge.classes
    confidence = np.full(near.keys.shape, np.nan)
    if classes is None:
        neighbourhood = judge.calibrated.collect_neighbourhood(
            engine, query, near, distances=distances, inside=request.inside
        )
        judged = calibration.judge(neighbourhood)
        confidence[:, :NEIGHBOURS] = judged.confidence
    else:
        distance = distances.distance.numpy()
        order = np.argsort(distance[:, :NEIGHBOURS], axis=1, kind="stable")
        own = None
        if request.inside:
            own = [label_of(facts, classes.field) for facts in engine.find(names).metadata]
        nearest_labels = [
            [its[place] for place in places]
            for its, places in zip(labels, order.tolist(), strict=True)
        ]
        sorted_distance = np.take_along_axis(distance, order, axis=1)
        judged = calibration.judge_labels(
            _labels_near(classes, query, sorted_distance, nearest_labels, own=own)
        )
        np.put_along_axis(confidence, order, judged.confidence, axis=1)
    copies = copies_among(near, engine.space.means(near.vectors), query.mean.double().numpy())
    answers: list[dict[str, Any]] = [
        {
            "verdict": verdict,
            "guaranteed": judge.guaranteed and request.plain,
            "novelty_p_value": float(p_value),
            "show": int(show),
            "uncalibrated": None,
        }
        for verdict, p_value, show in zip(judged.verdict, judged.p_value, judged.show, strict=True)
    ]
    if classes is not None and judged.labels is not None:
        for number, (codes, probabilities, size) in enumerate(
            zip(*map(np.ndarray.tolist, judged.labels), strict=True)
        ):
            every = {
                classes.names[code]: probability
                for code, probability in zip(codes, probabilities, strict=True)
                if code >= 0
            }
            for place, label in enumerate(labels[number][NEIGHBOURS:], NEIGHBOURS):
                confidence[number, place] = every.get(label or "", np.nan)
            if copies[number].any() and (copied := labels[number][copies[number].argmax()]):
                every, size = {copied: 1.0}, 1
            ordered = tuple(every)
            if ordered:
                answers[number] |= {
                    "label": ordered[0],
                    "label_confidence": every[ordered[0]],
                    "labels": every,
                    "label_set": ordered[:size],
                }
    confidence[copies] = 1.0  # a copy is a match by definition
    for number in np.flatnonzero(copies.any(axis=1)).tolist():
        answers[number] |= {"verdict": MATCH, "novelty_p_value": 1.0, "show": 1}
    return confidence, answers
