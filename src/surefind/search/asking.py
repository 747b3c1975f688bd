"""A question to an index, and its answer."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from surefind.embeddings import Embeddings
from surefind.engines.engine import Engine
from surefind.errors import InvalidArgument
from surefind.functional import expand
from surefind.search.confidence.calibrated import Calibrated
from surefind.search.confidence.fitting import usual_columns
from surefind.search.confidence.shift import FEWEST, Shift, compare
from surefind.search.describing import describe_hits
from surefind.search.evidence.seen import NEIGHBOURS
from surefind.search.hits import SearchResult
from surefind.search.inside import names_of, others, row_of
from surefind.search.nearest import Nearest
from surefind.search.neighbours import nearest
from surefind.search.question import Question

QUERIES_AT_ONCE = 1024


def answer(
    engine: Engine,
    query: Embeddings,
    names: Sequence[str],
    question: Question,
    *,
    calibrated: Calibrated | None = None,
) -> list[SearchResult]:
    """One result per query; with a calibration, its hits say how sure they are."""
    engine.space.check(query)
    wide = _widened(question, calibrated)
    results: list[SearchResult] = []
    for start in range(0, len(query), QUERIES_AT_ONCE):
        some = query[start : start + QUERIES_AT_ONCE]
        if question.expand:
            some = _expanded(engine, some, question)
        results += describe_hits(
            engine,
            some,
            find(engine, some, wide),
            names=names[start : start + QUERIES_AT_ONCE],
            question=question,
            calibrated=calibrated,
        )
    return results


def answer_inside(
    engine: Engine, name: str, question: Question, *, calibrated: Calibrated | None = None
) -> SearchResult:
    """What an image of the index finds among the others, judged as if it were not in there."""
    query = row_of(engine, name).embeddings
    wide = _widened(question, calibrated)
    near = find(engine, query, replace(wide, k=wide.k + 1))
    return describe_hits(
        engine,
        query,
        others(near, names_of(engine, near), itself=[name], k=wide.k),
        names=[name],
        question=question,
        calibrated=calibrated,
        inside=True,
    )[0]


def shift_of(engine: Engine, calibrated: Calibrated, query: Embeddings) -> tuple[Shift, ...]:
    """In what these queries are unlike those of the calibration."""
    ranking = calibrated.calibration.origin.ranking
    near = find(engine, query, Question(NEIGHBOURS, ranking))
    enough = np.flatnonzero(near.found == NEIGHBOURS)
    if len(enough) < FEWEST:
        raise InvalidArgument(
            "queries",
            expected=f"at least {FEWEST} queries that find {NEIGHBOURS} images each",
            got=f"{len(enough)} of {len(query)}",
            fix="gather more queries before comparing: a few differ by chance",
        )
    near, query = near.at(enough), query[enough.tolist()]
    seen = calibrated.see(engine, query, near)
    model = calibrated.calibration.model
    now = usual_columns(seen, model.names, model.confidence(seen)[:, 0])
    return compare(calibrated.calibration.usual, now)


def find(engine: Engine, query: Embeddings, question: Question) -> Nearest:
    engine.space.check(query)
    return nearest(engine, query, int(question.k), ranking=question.ranking, where=question.where)


def _widened(question: Question, calibrated: Calibrated | None) -> Question:
    """A hit is judged by neighbours that were not asked for."""
    return question if calibrated is None else replace(question, k=max(question.k, NEIGHBOURS))


def _expanded(engine: Engine, query: Embeddings, question: Question) -> Embeddings:
    near = nearest(engine, query, question.expand, ranking=question.ranking, where=question.where)
    changed = query.mean.clone(), query.spread.clone()
    for count in np.unique(near.found[near.found > 0]).tolist():
        rows = np.flatnonzero(near.found == count)
        others = engine.space.embeddings(
            near.vectors[rows, :count].reshape(-1, engine.space.width),
            near.var[rows, :count].reshape(-1),
        )
        own = expand(query[rows.tolist()], others.to(query.mean.dtype))
        for whole, part in zip(changed, (own.mean, own.spread), strict=True):
            whole[rows] = part
    return query.replace(*changed)
