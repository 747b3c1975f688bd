"""Answer queries: search the engine, judge the hits, make results."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from surefind.confidence.calibration import Calibrated
from surefind.confidence.class_table import LABEL, ClassTable, Codes, Numbers, label_of
from surefind.confidence.conformal import MATCH
from surefind.confidence.drift import FEWEST, Drift, compare, first_hit_columns, label_reference
from surefind.confidence.evidence import NEIGHBOURS, embeddings_of
from surefind.confidence.label_model import label_neighbourhood
from surefind.confidence.match_model import ConfidenceModel
from surefind.confidence.neighbours import copies_among
from surefind.engines.base import Engine, Queries, Records, Rows
from surefind.engines.filters import Where
from surefind.engines.knn import Nearest, engine_view, names_of, nearest
from surefind.errors import InvalidArgument, SurefindError
from surefind.functional import expand, hit_match_probability
from surefind.functional.ranking import RANKINGS, hit_distances
from surefind.search.hits import Hit, SearchResult
from surefind.validation import check_choice, check_number, check_whole

QUERIES_AT_ONCE = 1024
TOO_FEW = f"fewer than {NEIGHBOURS} images were found, too few to judge a hit by its neighbours"

CONFIDENCE = "confidence"  # ranking by the probability of a match

Wanted = Where | Mapping[str, Any] | Sequence[str] | str | None


class UnknownItem(SurefindError, KeyError):
    """No image of the index has this id."""

    __str__ = Exception.__str__  # that of KeyError adds quotes


def as_vectors(queries: object, dim: int | None) -> NDArray[np.floating] | None:
    """Return queries as one vector (D,) or several (N, D); None if they are images.

    `dim` is the width that tells vectors from images; None where there are no images.
    """
    if isinstance(queries, Tensor):
        queries = queries.detach().cpu().numpy()
    elif isinstance(queries, list | tuple) and len(queries):
        first = queries[0]
        if isinstance(first, Tensor | np.ndarray) and first.ndim == 1:
            queries = np.stack([np.asarray(one) for one in queries])
        elif isinstance(first, float | np.floating | list | tuple):
            try:
                queries = np.asarray(queries, dtype=np.float64)
            except (TypeError, ValueError):
                return None
    if not isinstance(queries, np.ndarray) or queries.dtype.kind != "f" or queries.ndim > 2:
        return None
    if not queries.ndim:
        return None
    pixels = dim not in (None, queries.shape[-1]) and queries.min() >= 0 and queries.max() <= 1
    return None if pixels else queries


class SearchRequest(NamedTuple):
    """Checked options of a search."""

    k: int
    ranking: str  # of the hits
    candidates: str  # ranking of the candidates: mean or expected
    where: Where | None
    radius: float | None  # a distance, not squared
    expand: int  # neighbours for query expansion
    inside: Rows | None  # the queries, if they are rows of the index: left out of hits and neighbours
    views: int  # of one item
    kind: str  # of the queries; "": what the index is made of
    reranked: bool  # candidates of the engine's own ranking, re-ordered
    variant: str  # "" for plain searches; see `variant_of`


def variant_of(engine: Engine, *, where: Where | None, views: int, ranking: str, kind: str) -> str:
    """Name the searches that need a calibration of their own; "" for plain ones."""
    parts = [f"kind {kind}"] if kind else []
    if where is not None:
        parts += sorted(f"where {one.field} {one.op} {one.value!r}" for one in where.conditions)
    if views > 1:
        parts.append(f"{views} views")
    if ranking != engine.space.ranking:
        parts.append(f"ranking {ranking}")
    return ", ".join(parts)


def parse_where(where: Wanted) -> Where | None:
    """Return a filter that may be given as text."""
    if where is None or isinstance(where, Where):
        return where
    if not isinstance(where, str | Mapping | Sequence):
        raise InvalidArgument("where", expected="a condition or several", got=repr(where))
    return Where.parse(where)


def search_request(
    engine: Engine,
    k: int,
    ranking: str | None,
    where: Wanted,
    *,
    radius: float | None = None,
    expand: int = 0,
    inside: Rows | None = None,
    views: int = 1,
    kind: str = "",
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
        raise InvalidArgument("ranking", expected="mean or expected: the index is not calibrated", got=ranking)
    check_whole("k", k)
    check_whole("expand", expand, smallest=0)
    if radius is not None:
        check_number("radius", radius, "a positive number", lambda x: x > 0)
    where = parse_where(where)
    most, requested = engine.max_k - (inside is not None), max(k, expand)
    if requested > most and engine.count(where) > engine.max_k:
        raise InvalidArgument(
            "k" if k == requested else "expand",
            expected=f"at most {most:,}, the limit of this index's engine",
            got=f"{requested:,}",
        )
    candidates = own if ranking == CONFIDENCE else ranking
    variant = variant_of(engine, where=where, views=views, ranking=candidates, kind=kind)
    reranked = candidates != own
    return SearchRequest(
        int(k), ranking, candidates, where, radius, int(expand), inside, views, kind, reranked, variant
    )


class Judge(NamedTuple):
    """Calibration of an index, and the classes of its images if it rests on them."""

    calibrated: Calibrated
    classes: ClassTable | None
    guaranteed: bool  # whether the guarantee is for this gallery and these searches


def answer(
    engine: Engine, query: Queries, names: Sequence[str], request: SearchRequest, judge: Judge | str
) -> list[SearchResult]:
    """Return one result per query; their names are ids if they are inside the index.

    `judge` is a calibration, or the reason why there is no confidence.
    """
    k = request.k if isinstance(judge, str) else max(request.k, NEIGHBOURS)
    where, ranking = request.where, request.candidates
    if not isinstance(judge, str) and judge.classes is None and request.variant:
        engine = engine_view(engine, where=where, ranking=ranking)  # as in its calibration
        where, ranking = None, engine.space.ranking
    results: list[SearchResult] = []
    for start in range(0, len(names), QUERIES_AT_ONCE):
        some, own = query.at(slice(start, start + QUERIES_AT_ONCE)), names[start : start + QUERIES_AT_ONCE]
        if request.expand:
            some = _expanded(engine, some, request)
        near = nearest(engine, some, k + (request.inside is not None), ranking=ranking, where=where)
        if request.inside is not None:
            near = near.besides(names_of(engine, near), own, k)
        found = near.found
        each: dict[int, SearchResult] = {}
        for count in np.unique(found).tolist():  # those that found equally many, together
            rows = np.flatnonzero(found == count)
            if len(rows) == len(found) and count == near.keys.shape[1]:
                described = _describe(engine, some, near, own, request, judge)
            else:
                its = near.at((rows, slice(count)))
                described = _describe(engine, some.at(rows), its, [own[row] for row in rows.tolist()], request, judge)
            each.update(zip(rows.tolist(), described, strict=True))
        results += [each[row] for row in range(len(found))]
    return results


def drift_of(engine: Engine, judge: Judge, query: Queries) -> tuple[Drift, ...]:
    """Return the evidence columns in which queries differ from the calibration queries."""
    calibration = judge.calibrated.calibration
    if not calibration.reference_quantiles:
        raise InvalidArgument("index", expected="a calibration with queries of its own", got="the prior calibration")
    near = nearest(engine, query, NEIGHBOURS, ranking=calibration.origin.ranking)
    enough = np.flatnonzero(near.found == NEIGHBOURS)
    if len(enough) < FEWEST:
        raise InvalidArgument(
            "queries",
            expected=f"at least {FEWEST} queries that find {NEIGHBOURS} images each",
            got=f"{len(enough)} of {len(query.mean)}",
        )
    near, query = near.at(enough), query.at(enough)
    if judge.classes is not None:
        records, place = _records(engine, near)
        labels = [label_of(facts, judge.classes.field) for facts in records.metadata]
        code = judge.classes.codes_of(labels)[place]
        found = label_neighbourhood(judge.classes, query.mean, near.distance, code)
        sure = np.nanmax(calibration.judge_labels(found).confidence, axis=1, initial=0.0)
        return compare(calibration.reference_quantiles, label_reference(found, sure))
    assert isinstance(calibration.model, ConfidenceModel)
    neighbourhood = judge.calibrated.collect_neighbourhood(engine, query, near)
    sure = calibration.model.confidence(neighbourhood).max(axis=1)
    now = first_hit_columns(neighbourhood, calibration.model.names, sure)
    return compare(calibration.reference_quantiles, now)


def _expanded(engine: Engine, query: Queries, request: SearchRequest) -> Queries:
    space = engine.space
    near = nearest(engine, query, request.expand, ranking=request.candidates, where=request.where)
    own = space.embeddings(query.vectors, query.var)
    mean, spread = own.mean.clone(), own.spread.clone()
    for count in np.unique(near.found[near.found > 0]).tolist():
        rows = np.flatnonzero(near.found == count)
        around = embeddings_of(space, near.at((rows, slice(count))))
        wider = expand(own[rows.tolist()], around)
        mean[rows], spread[rows] = wider.mean, wider.spread
    return space.queries(own.replace(mean, spread))


def _records(engine: Engine, near: Nearest) -> tuple[Records, NDArray[np.int64]]:
    """Return the rows of all hits, each once, and the place of every hit among them, (Q, K)."""
    keys, place = np.unique(near.keys, return_inverse=True)
    return engine.records(keys), place.reshape(near.keys.shape)


def _describe(
    engine: Engine, query: Queries, near: Nearest, names: Sequence[str], request: SearchRequest, judge: Judge | str
) -> list[SearchResult]:
    """Make one result per query. All found equally many rows; to be judged, more than k."""
    space, width = engine.space, near.keys.shape[1]
    if isinstance(judge, Judge) and width < (NEIGHBOURS if judge.classes is None else 1):
        judge = TOO_FEW
    if isinstance(judge, str):
        near = near.at((slice(None), slice(request.k)))
    records, place = _records(engine, near)
    field = LABEL if isinstance(judge, str) else judge.calibrated.calibration.origin.field
    labels = [label_of(facts, field) for facts in records.metadata]
    expected, std = hit_distances(near.distance, query.var, near.var, dim=space.dim, family=space.family)
    within = sure = np.full(near.keys.shape, None)
    keys = expected if request.ranking == "expected" else near.distance
    if request.radius is not None and width:
        within = hit_match_probability(
            near.distance, query.var, near.var, request.radius, dim=space.dim, family=space.family
        )
    answers: list[dict[str, Any]] = [{"uncalibrated": judge} for _ in names]
    if isinstance(judge, Judge):
        code = None if judge.classes is None else judge.classes.codes_of(labels)[place]
        confidence, answers = _confidence(engine, query, near, request, judge, code)
        sure = confidence.astype(object)
        sure[np.isnan(confidence)] = None
        if request.ranking == CONFIDENCE:
            keys = -np.where(np.isnan(confidence), -1.0, confidence)
    order = np.argsort(keys, axis=1, kind="stable")[:, : request.k]
    queries = np.arange(len(names))[:, None]
    place = place[queries, order]
    columns = [its[queries, order].tolist() for its in (near.distance, expected, std, near.var, within, sure)]
    paths = [None if path is None else str(path) for path in (facts.get("path") for facts in records.metadata)]
    results = []
    for name, var, more, rows, *each in zip(names, query.var.tolist(), answers, place.tolist(), *columns, strict=True):
        found = [[column[row] for row in rows] for column in (records.ids, paths, records.metadata, labels)]
        hits = tuple(map(Hit, *found[:2], *each[:4], *found[2:], *each[4:]))
        results.append(
            SearchResult(
                query=name,
                hits=hits,
                query_var=var,
                ranking=request.ranking,
                reranked=request.reranked,
                confidence=hits[0].confidence if hits else None,
                **more,
            )
        )
    return results


def _confidence(
    engine: Engine, query: Queries, near: Nearest, request: SearchRequest, judge: Judge, code: Codes | None
) -> tuple[Numbers, list[dict[str, Any]]]:
    """Return the confidence of each hit, (Q, K), NaN if unknown, and what results have more.

    `code` has the class of each hit, (Q, K), if the calibration rests on labels.
    """
    calibration, classes, inside = judge.calibrated.calibration, judge.classes, request.inside
    confidence = np.full(near.keys.shape, np.nan)
    if classes is None or code is None:
        judged = calibration.judge(
            judge.calibrated.collect_neighbourhood(engine, query, near, inside=inside is not None)
        )
        confidence[:, :NEIGHBOURS] = judged.confidence
    else:
        order = np.argsort(near.distance[:, :NEIGHBOURS], axis=1, kind="stable")
        distance = np.take_along_axis(near.distance, order, axis=1)
        codes = np.take_along_axis(code, order, axis=1)
        own = None if inside is None else classes.codes_of([label_of(one, classes.field) for one in inside.metadata])
        left_out = None if own is None else (own >= 0).astype(float)
        judged = calibration.judge_labels(
            label_neighbourhood(classes, query.mean, distance, codes, own=own, left_out=left_out)
        )
        np.put_along_axis(confidence, order, judged.confidence, axis=1)
    copies = copies_among(near, query.mean)
    copied = np.any(copies, axis=1).tolist()
    answers: list[dict[str, Any]] = [
        {
            "verdict": MATCH if copy else verdict,  # a copy is a match by definition
            "guaranteed": judge.guaranteed,
            "variant": calibration.origin.variant,
            "novelty_p_value": 1.0 if copy else p_value,
            "show": 1 if copy else show,
        }
        for copy, verdict, p_value, show in zip(
            copied, judged.verdict, judged.p_value.tolist(), judged.show.tolist(), strict=True
        )
    ]
    if classes is not None and code is not None and judged.labels is not None:
        for number, (its, probabilities, size) in enumerate(zip(*map(np.ndarray.tolist, judged.labels), strict=True)):
            every = {one: probability for one, probability in zip(its, probabilities, strict=True) if one >= 0}
            for place, one in enumerate(code[number, NEIGHBOURS:].tolist(), NEIGHBOURS):
                confidence[number, place] = every.get(one, np.nan)
            if copied[number] and (one := int(code[number, copies[number].argmax()])) >= 0:
                every, size = {one: 1.0}, 1
            if every:
                labels = {classes.names[one]: probability for one, probability in every.items()}
                label, *others = labels
                answers[number] |= {
                    "label": label,
                    "label_confidence": labels[label],
                    "labels": labels,
                    "label_set": (label, *others[: size - 1]),
                }
    confidence[copies] = 1.0
    return confidence, answers
