"""Answer queries: search the engine, judge the hits, make results."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from surefind.confidence.calibrate import first_hit_columns
from surefind.confidence.calibration import Calibrated
from surefind.confidence.drift import FEWEST, Drift, compare
from surefind.confidence.evidence import NEIGHBOURS, distances_to, embeddings_of
from surefind.embeddings import Embeddings
from surefind.engines.base import Engine
from surefind.engines.filters import Where
from surefind.engines.knn import Nearest, names_of, nearest
from surefind.errors import InvalidArgument, SurefindError
from surefind.functional import expand, hit_match_probability
from surefind.functional.ranking import RANKINGS
from surefind.search.hits import Hit, SearchResult
from surefind.validation import check_choice, check_number, check_whole

QUERIES_AT_ONCE = 1024
TOO_FEW = f"fewer than {NEIGHBOURS} images were found, too few to judge a hit by its neighbours"

Wanted = Where | Sequence[str] | str | None


class UnknownItem(SurefindError):
    """No image of the index has this id."""


class SearchRequest(NamedTuple):
    """Checked options of a search."""

    k: int
    ranking: str
    where: Where | None
    radius: float | None  # a distance, not squared
    expand: int  # neighbours for query expansion
    inside: bool  # queries are rows of the index, left out of hits and neighbours
    uncalibrated: str | None  # why a calibrated index gives no confidence, if so


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
) -> SearchRequest:
    """Check the options of a search; `ranking` defaults to the engine's own.

    k may exceed the engine's limit, less a query inside, only if the index has fewer rows.
    """
    ranking = engine.space.ranking if ranking is None else ranking
    check_choice("ranking", ranking, RANKINGS)
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
    reasons = {
        "where": where is not None,
        "expand": expand > 0,
        f"ranking={ranking}": ranking != engine.space.ranking,
        "several views": views > 1,
    }
    what = next((what for what, applies in reasons.items() if applies), None)
    why = what and f"no confidence with {what}: the calibration holds for plain searches"
    return SearchRequest(int(k), ranking, where, radius, int(expand), inside, why)


def answer(
    engine: Engine,
    query: Embeddings,
    names: Sequence[str],
    request: SearchRequest,
    calibrated: Calibrated | str,
) -> list[SearchResult]:
    """Return one result per query; their names are ids if they are inside the index.

    `calibrated` is a calibration, or the reason why there is no confidence.
    """
    engine.space.check(query)
    k = request.k if isinstance(calibrated, str) else max(request.k, NEIGHBOURS)
    results: list[SearchResult] = []
    for start in range(0, len(query), QUERIES_AT_ONCE):
        rows = slice(start, start + QUERIES_AT_ONCE)
        some = _expanded(engine, query[rows], request) if request.expand else query[rows]
        count = k + request.inside
        near = nearest(engine, some, count, ranking=request.ranking, where=request.where)
        if request.inside:
            near = near.besides(names_of(engine, near), names[rows], k)
        results += _describe(engine, some, near, names[rows], request, calibrated)
    return results


def drift_of(engine: Engine, calibrated: Calibrated, query: Embeddings) -> tuple[Drift, ...]:
    """Return the evidence columns in which queries differ from the calibration queries."""
    ranking = calibrated.calibration.origin.ranking
    engine.space.check(query)
    near = nearest(engine, query, NEIGHBOURS, ranking=ranking)
    enough = np.flatnonzero(near.found == NEIGHBOURS)
    if len(enough) < FEWEST:
        raise InvalidArgument(
            "queries",
            expected=f"at least {FEWEST} queries that find {NEIGHBOURS} images each",
            got=f"{len(enough)} of {len(query)}",
        )
    near, query = near.at(enough), query[enough.tolist()]
    neighbourhood = calibrated.collect_neighbourhood(engine, query, near)
    model = calibrated.calibration.model
    now = first_hit_columns(neighbourhood, model.names, model.confidence(neighbourhood)[:, 0])
    return compare(calibrated.calibration.reference_quantiles, now)


def _expanded(engine: Engine, query: Embeddings, request: SearchRequest) -> Embeddings:
    near = nearest(engine, query, request.expand, ranking=request.ranking, where=request.where)
    mean, spread = query.mean.clone(), query.spread.clone()
    for count in np.unique(near.found[near.found > 0]).tolist():
        rows = np.flatnonzero(near.found == count)
        around = embeddings_of(engine.space, near.at((rows, slice(count))))
        own = expand(query[rows.tolist()], around)
        mean[rows], spread[rows] = own.mean, own.spread
    return query.replace(mean, spread)


def _describe(
    engine: Engine,
    query: Embeddings,
    near: Nearest,
    names: Sequence[str],
    request: SearchRequest,
    calibrated: Calibrated | str,
) -> list[SearchResult]:
    """Make one result per query; for a calibrated one `near` has more rows than hits."""
    query = query.detach().to("cpu").to(torch.float32)
    results = [
        SearchResult(
            query=name,
            hits=(),
            query_var=float(var),
            ranking=request.ranking,
            reranked=request.ranking != engine.space.ranking,
            uncalibrated=calibrated if isinstance(calibrated, str) else TOO_FEW,
        )
        for name, var in zip(names, engine.space.var(query), strict=True)
    ]
    for count in np.unique(near.found[near.found > 0]).tolist():  # queries with equally many hits
        rows = np.flatnonzero(near.found == count)
        some, its = query[rows.tolist()], near.at((rows, slice(count)))
        distances = distances_to(engine.space, some, its)
        first = its.at((slice(None), slice(request.k)))
        hits = first.keys.shape[1]
        columns: dict[str, Any] = {
            "distance": distances.distance[:, :hits].tolist(),
            "expected_distance": distances.expected[:, :hits].tolist(),
            "std": distances.std[:, :hits].tolist(),
            "var": first.var.tolist(),
        }
        if request.radius is not None:
            columns["p_within"] = hit_match_probability(
                some, embeddings_of(engine.space, first), request.radius, per_query=hits
            ).tolist()
        if not isinstance(calibrated, str) and count >= NEIGHBOURS:
            neighbourhood = calibrated.collect_neighbourhood(
                engine, some, its, distances=distances, inside=request.inside
            )
            judged = calibrated.calibration.judge(neighbourhood)
            beyond = [None] * max(0, hits - NEIGHBOURS)  # not calibrated
            columns["confidence"] = [[*sure, *beyond] for sure in judged.confidence.tolist()]
            for place, row in enumerate(rows):
                results[row] = replace(
                    results[row],
                    confidence=float(judged.confidence[place, 0]),
                    verdict=judged.verdict[place],
                    novelty_p_value=float(judged.p_value[place]),
                    show=int(judged.show[place]),
                    uncalibrated=None,
                )
        keys, places = np.unique(first.keys, return_inverse=True)  # queries share hits
        found = engine.rows(keys)
        paths = [its.get("path") for its in found.metadata]
        for place, row in enumerate(rows):
            results[row] = replace(
                results[row],
                hits=tuple(
                    Hit(
                        id=found.ids[which],
                        path=None if paths[which] is None else str(paths[which]),
                        metadata=found.metadata[which],
                        **{name: its[place][rank] for name, its in columns.items()},
                    )
                    for rank, which in enumerate(places.reshape(len(rows), hits)[place])
                ),
            )
    return results
