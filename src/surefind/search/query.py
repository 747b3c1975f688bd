"""Queries to an index: the nearest rows, and what is known about each of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from surefind.embeddings import Embeddings
from surefind.engines.engine import Engine
from surefind.engines.knn import Nearest, names_of, nearest
from surefind.engines.where import Where
from surefind.errors import InvalidArgument, SurefindError
from surefind.functional import expand, hit_match_probability
from surefind.functional.ranking import RANKINGS
from surefind.search.confidence.calibrate import usual_columns
from surefind.search.confidence.calibration import Calibrated
from surefind.search.confidence.evidence import NEIGHBOURS, distances_to
from surefind.search.confidence.shift import FEWEST, Shift, compare
from surefind.search.hits import Hit, SearchResult
from surefind.validation import check_choice, check_number, check_whole

QUERIES_AT_ONCE = 1024
TOO_FEW = f"fewer than {NEIGHBOURS} images were found, too few to judge a hit by its neighbours"

Wanted = Where | Sequence[str] | str | None


class UnknownItem(SurefindError):
    """An id that no image of the index has."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no image of the index has the id {name[:80]!r}",
            fix="use the id of a hit; the image may have been removed since",
        )
        self.name = name


@dataclass(frozen=True)
class Question:
    """How many, in which order, of which rows, and what else to tell about them."""

    k: int
    ranking: str
    where: Where | None = None
    radius: float | None = None  # a distance, not squared
    expand: int = 0  # neighbours that help the query

    def __post_init__(self) -> None:
        check_choice("ranking", self.ranking, RANKINGS)
        check_whole("k", self.k)
        check_whole("expand", self.expand, smallest=0)
        if self.radius is not None:
            check_number("radius", self.radius, "a positive number", lambda x: x > 0)

    def check_most(self, engine: Engine, *, inside: bool = False) -> None:
        """Refuse to ask for more rows than the engine can return; for all there are is no error.

        A query that is inside the index is found as well, so that one hit less can be asked for.
        """
        most = engine.most - inside
        asked = max(self.k, self.expand)
        if asked > most and engine.count(self.where) > engine.most:
            raise InvalidArgument(
                "k" if self.k == asked else "expand",
                expected=f"at most {most:,}, the limit of this index's engine",
                got=f"{asked:,}",
                fix="ask for fewer, or choose rows with where",
            )

    def uncalibrated(self, native: str, *, views: int = 1) -> str | None:
        """Why the answer of a calibrated index has no confidence."""
        reasons = {
            "where": self.where is not None,
            "expand": self.expand > 0,
            f"ranking={self.ranking}": self.ranking != native,
            "several views": views > 1,
        }
        for what, asked in reasons.items():
            if asked:
                return f"no confidence with {what}: the calibration is of plain searches"
        return None


def wanted_rows(where: Wanted) -> Where | None:
    """Conditions as they are, or as they are written."""
    if where is None or isinstance(where, Where):
        return where
    return Where.parse([where] if isinstance(where, str) else where)


def answer(
    engine: Engine,
    query: Embeddings,
    names: Sequence[str],
    question: Question,
    *,
    calibrated: Calibrated | None = None,
) -> list[SearchResult]:
    """Return one result per query; with a calibration, its hits say how sure they are."""
    engine.space.check(query)
    wide = _widened(question, calibrated)
    results: list[SearchResult] = []
    for start in range(0, len(query), QUERIES_AT_ONCE):
        some = query[start : start + QUERIES_AT_ONCE]
        if question.expand:
            some = _expanded(engine, some, question)
        results += _describe(
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
    query = engine.find([name]).embeddings
    if not len(query):
        raise UnknownItem(name)
    wide = _widened(question, calibrated)
    near = find(engine, query, replace(wide, k=wide.k + 1))
    near = near.besides(names_of(engine, near), [name], wide.k)
    return _describe(
        engine, query, near, names=[name], question=question, calibrated=calibrated, inside=True
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
    mean, spread = query.mean.clone(), query.spread.clone()
    for count in np.unique(near.found[near.found > 0]).tolist():
        rows = np.flatnonzero(near.found == count)
        own = expand(query[rows.tolist()], _gallery(engine, near.at((rows, slice(count)))))
        mean[rows], spread[rows] = own.mean, own.spread
    return query.replace(mean, spread)


def _gallery(engine: Engine, near: Nearest) -> Embeddings:
    """The embeddings of rows that were found, query by query."""
    return engine.space.embeddings(
        near.vectors.reshape(-1, engine.space.width), near.var.reshape(-1)
    )


def _describe(
    engine: Engine,
    query: Embeddings,
    near: Nearest,
    *,
    names: Sequence[str],
    question: Question,
    calibrated: Calibrated | None,
    inside: bool = False,
) -> list[SearchResult]:
    """Return one result per query, with everything that is known about each hit.

    For a calibrated answer there are more rows than hits: the neighbours of the query. Queries
    that are `inside` the gallery are judged as if they were not.
    """
    query = query.detach().to("cpu").to(torch.float32)
    results = [
        SearchResult(
            query=name,
            hits=(),
            query_var=float(var),
            ranking=question.ranking,
            reranked=question.ranking != engine.space.ranking,
            uncalibrated=None if calibrated is None else TOO_FEW,
        )
        for name, var in zip(names, engine.space.var(query), strict=True)
    ]
    for count in np.unique(near.found[near.found > 0]).tolist():  # as many hits for each query
        rows = np.flatnonzero(near.found == count)
        some, its = query[rows.tolist()], near.at((rows, slice(count)))
        described = _describe_alike(engine, some, its, question, calibrated, inside=inside)
        for row, facts in zip(rows, described, strict=True):
            results[row] = replace(results[row], **facts)
    return results


def _describe_alike(
    engine: Engine,
    query: Embeddings,
    near: Nearest,
    question: Question,
    calibrated: Calibrated | None,
    *,
    inside: bool,
) -> list[dict[str, Any]]:
    """Hits and judgement of queries that all found as many, as fields of their results."""
    distances = distances_to(engine.space, query, near)
    hits = min(int(question.k), near.keys.shape[1])
    first = near.at((slice(None), slice(hits)))
    columns: dict[str, Any] = {
        "distance": distances.distance[:, :hits].tolist(),
        "expected_distance": distances.expected[:, :hits].tolist(),
        "std": distances.std[:, :hits].tolist(),
        "var": first.var.tolist(),
    }
    if question.radius is not None:
        columns["p_within"] = hit_match_probability(
            query, _gallery(engine, first), question.radius, per_query=hits
        ).tolist()
    facts: list[dict[str, Any]] = [{} for _ in query.mean]
    if calibrated is not None and near.keys.shape[1] >= NEIGHBOURS:
        judged = calibrated.judge(engine, query, near, distances=distances, inside=inside)
        beyond = [None] * max(0, hits - judged.confidence.shape[1])  # not calibrated so far down
        columns["confidence"] = [[*its, *beyond] for its in judged.confidence.tolist()]
        facts = [
            {
                "confidence": float(judged.confidence[row, 0]),
                "verdict": judged.verdict[row],
                "novelty_p_value": float(judged.belongs[row]),
                "show": int(judged.show[row]),
                "uncalibrated": None,
            }
            for row in range(len(query))
        ]
    keys, places = np.unique(first.keys, return_inverse=True)  # queries share hits
    found = engine.rows(keys)
    for row, its in enumerate(places.reshape(len(query), hits).tolist()):
        facts[row]["hits"] = tuple(
            Hit(
                id=found.ids[place],
                path=None if (path := found.metadata[place].get("path")) is None else str(path),
                metadata=found.metadata[place],
                **{name: column[row][rank] for name, column in columns.items()},
            )
            for rank, place in enumerate(its)
        )
    return facts
