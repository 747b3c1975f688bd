"""What is asked of an index, and its answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefind.choices import check_choice
from surefind.embeddings import Embeddings
from surefind.engines.engine import Engine
from surefind.engines.where import Where
from surefind.errors import InvalidArgument
from surefind.functional import expand
from surefind.functional.search_bounds import RANKINGS
from surefind.search.evidence import describe_hits
from surefind.search.hits import SearchResult
from surefind.search.nearest import Nearest
from surefind.search.neighbours import nearest

QUERIES_AT_ONCE = 1024

Wanted = Where | Sequence[str] | str | None


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
        least_of: dict[str, tuple[object, int]] = {"k": (self.k, 1), "expand": (self.expand, 0)}
        for name, (value, least) in least_of.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InvalidArgument(
                    name,
                    expected=f"a whole number of at least {least}",
                    got=repr(value),
                    fix=f"e.g. {name}=5",
                )
        if self.radius is not None and not 0 < self.radius < np.inf:
            raise InvalidArgument(
                "radius", expected="a positive number", got=repr(self.radius), fix="e.g. radius=1"
            )


def wanted_rows(where: Wanted) -> Where | None:
    """Conditions as they are, or as they are written."""
    if where is None or isinstance(where, Where):
        return where
    return Where.parse([where] if isinstance(where, str) else where)


def answer(
    engine: Engine, query: Embeddings, names: Sequence[str], question: Question
) -> list[SearchResult]:
    """One result per query."""
    engine.space.check(query)
    results: list[SearchResult] = []
    for start in range(0, len(query), QUERIES_AT_ONCE):
        some = query[start : start + QUERIES_AT_ONCE]
        if question.expand:
            some = _expanded(engine, some, question)
        results += describe_hits(
            engine,
            some,
            find(engine, some, question),
            names=names[start : start + QUERIES_AT_ONCE],
            ranking=question.ranking,
            radius=question.radius,
        )
    return results


def find(engine: Engine, query: Embeddings, question: Question) -> Nearest:
    engine.space.check(query)
    return nearest(engine, query, int(question.k), ranking=question.ranking, where=question.where)


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
