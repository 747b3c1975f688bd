"""Answer queries: search the engine, judge the hits, make results."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.confidence.class_table import LABEL, labels_of
from surefind.confidence.evidence import NEIGHBOURS, embeddings_of
from surefind.confidence.judge import Judge
from surefind.embeddings import Embeddings
from surefind.engines.base import Engine, Queries, Rows
from surefind.engines.filters import Where
from surefind.engines.knn import Nearest, engine_view, names_of, nearest, records_of
from surefind.errors import InvalidArgument, SurefindError
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


def as_vectors(queries: Any, dim: int | None) -> NDArray[np.floating] | None:
    """Return queries as one vector (D,) or several (N, D); None if they are images.

    `dim` is the width that tells vectors from images; None where there are no images.
    """
    if hasattr(queries, "layout"):  # a tensor
        queries = np.asarray(queries.detach().cpu())
    elif isinstance(queries, list | tuple) and len(queries):
        first = queries[0]
        if getattr(first, "ndim", None) == 1:
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
    own, where = engine.space.ranking, parse_where(where)
    ranking = (CONFIDENCE if calibrated else own) if ranking is None else ranking
    check_choice("ranking", ranking, (*RANKINGS, CONFIDENCE))
    if ranking == CONFIDENCE and not calibrated:
        raise InvalidArgument("ranking", expected="mean or expected: the index is not calibrated", got=ranking)
    check_whole("k", k)
    check_whole("expand", expand, smallest=0)
    if radius is not None:
        check_number("radius", radius, "a positive number", lambda x: x > 0)
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


def answer(
    engine: Engine, query: Embeddings | Queries, names: Sequence[str], request: SearchRequest, judge: Judge | str
) -> list[SearchResult]:
    """Return one result per query; their names are ids if they are inside the index.

    `judge` is a calibration, or the reason why there is no confidence.
    """
    arrays = engine.space.queries(query)
    k = request.k if isinstance(judge, str) else max(request.k, NEIGHBOURS)
    where, ranking = request.where, request.candidates
    if not isinstance(judge, str) and judge.classes is None and request.variant:
        engine = engine_view(engine, where=where, ranking=ranking)  # as in its calibration
        where, ranking = None, engine.space.ranking
    vectors = not isinstance(judge, str) and judge.classes is None  # which looks at the neighbours of hits
    results: list[SearchResult] = []
    for start in range(0, len(names), QUERIES_AT_ONCE):
        some, own = arrays.at(slice(start, start + QUERIES_AT_ONCE)), names[start : start + QUERIES_AT_ONCE]
        if request.expand:
            some = _expanded(engine, some, request)
        most = k + (request.inside is not None)
        near = nearest(engine, some, most, ranking=ranking, where=where, vectors=vectors)
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


def _expanded(engine: Engine, query: Queries, request: SearchRequest) -> Queries:
    from surefind.functional.fusion import expand

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


def _describe(
    engine: Engine, query: Queries, near: Nearest, names: Sequence[str], request: SearchRequest, judge: Judge | str
) -> list[SearchResult]:
    """Make one result per query. All found equally many rows; to be judged, more than k."""
    space, width = engine.space, near.keys.shape[1]
    if isinstance(judge, Judge) and width < (NEIGHBOURS if judge.classes is None else 1):
        judge = TOO_FEW
    if isinstance(judge, str):
        near = near.at((slice(None), slice(request.k)))
    records, place = records_of(engine, near)
    expected, std = hit_distances(near.distance, query.var, near.var, dim=space.dim, family=space.family)
    within = sure = np.full(near.keys.shape, None)
    keys = expected if request.ranking == "expected" else near.distance
    if request.radius is not None and width:
        from surefind.functional.distance import hit_match_probability

        within = hit_match_probability(
            near.distance, query.var, near.var, request.radius, dim=space.dim, family=space.family
        )
    labels = labels_of(records.metadata, LABEL if isinstance(judge, str) else judge.field)
    answers: list[dict[str, Any]]
    if isinstance(judge, str):
        answers = [{"uncalibrated": judge} for _ in names]
    else:
        confidence, answers = judge.answers(engine, query, near, labels, place, inside=request.inside)
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
