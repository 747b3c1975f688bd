"""Labelled queries asked of an index: what was seen, and which hits were right."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.embeddings import Embeddings
from surefind.engines.engine import Engine
from surefind.engines.where import Metadata
from surefind.errors import InvalidArgument
from surefind.search.confidence.calibrated import DOUBTED, doubt_of
from surefind.search.confidence.observed import Observed
from surefind.search.confidence.truth import check_labelled, facts_of, has_match, matching
from surefind.search.doubt.heads import VarianceHeads
from surefind.search.evidence.seeing import see
from surefind.search.evidence.seen import NEIGHBOURS, Numbers, Seen
from surefind.search.inside import others
from surefind.search.nearest import Nearest
from surefind.search.neighbourhoods import Neighbourhoods, known_around
from surefind.search.neighbours import nearest

QUERIES_AT_ONCE = 256
LEAST_GALLERY = NEIGHBOURS + 2


class LabelledQueries(NamedTuple):
    """Queries of which it is known what they show."""

    embeddings: Embeddings
    facts: Sequence[Metadata]  # with a label, or a place
    itself: Sequence[str]  # the id under which a query is in the index; "" if it is not
    groups: NDArray[np.int64]  # their classes

    def at(self, rows: NDArray[np.int64]) -> "LabelledQueries":
        return LabelledQueries(
            self.embeddings[rows.tolist()],
            [self.facts[row] for row in rows],
            [self.itself[row] for row in rows],
            self.groups[rows],
        )


class Doubt(NamedTuple):
    """Learned heads, and what those say of labelled queries that did not see their classes."""

    heads: VarianceHeads | None
    of_queries: Numbers  # (Q, 2), log variance and disagreement


def checked_gallery(engine: Engine) -> list[Metadata]:
    """What is known about the rows, if they are enough and labelled."""
    gallery = facts_of(engine)
    check_labelled(gallery)
    if len(gallery) < LEAST_GALLERY:
        raise InvalidArgument(
            "index",
            expected=f"at least {LEAST_GALLERY} images",
            got=str(len(gallery)),
            fix="add images before it is calibrated",
        )
    return gallery


def observe(
    engine: Engine,
    queries: LabelledQueries,
    neighbourhoods: Neighbourhoods,
    *,
    ranking: str,
    doubt: Doubt,
    gallery: Sequence[Metadata] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Observed:
    """Each query's first hits; a query that is in the index is not its own hit.

    `gallery` is what `checked_gallery` gave, where it was asked already.
    """
    if gallery is None:
        gallery = checked_gallery(engine)
    unseen = dict(zip(queries.itself, doubt.of_queries[:, 0].tolist(), strict=True))
    seen, match = [], []
    for start in range(0, len(queries.facts), QUERIES_AT_ONCE):
        rows = np.arange(start, min(start + QUERIES_AT_ONCE, len(queries.facts)))
        its = Doubt(doubt.heads, doubt.of_queries[rows])
        some, right = _ask(engine, queries.at(rows), neighbourhoods, ranking, its, unseen)
        seen.append(some)
        match.append(right)
        if progress is not None:
            progress(int(rows[-1]) + 1)
    inside = np.array([name != "" for name in queries.itself])
    return Observed(
        Seen.joined(seen),
        np.concatenate(match),
        queries.groups,
        has_match(queries.facts, gallery, in_gallery=inside),
        len(gallery),
    )


def _ask(
    engine: Engine,
    queries: LabelledQueries,
    neighbourhoods: Neighbourhoods,
    ranking: str,
    doubt: Doubt,
    unseen: dict[str, float],
) -> tuple[Seen, NDArray[np.bool_]]:
    near = nearest(engine, queries.embeddings, NEIGHBOURS + 1, ranking=ranking)
    keys, place = np.unique(near.keys, return_inverse=True)
    rows, place = engine.rows(keys), place.reshape(near.keys.shape)
    ids = np.array(rows.ids, dtype=object)
    near = others(
        Nearest(place, near.ranked_by, near.vectors, near.var),
        ids[place],
        itself=queries.itself,
        k=NEIGHBOURS,
    )
    place = near.keys
    around = known_around(engine, neighbourhoods, keys, ranking=ranking)
    of_rows = doubt_of(doubt.heads, rows.embeddings.mean)[:, 0]
    if doubt.heads is not None:  # of a row that is a query, by heads that did not see its class
        of_rows = np.array([unseen.get(*its) for its in zip(rows.ids, of_rows, strict=True)])
    seen = see(
        engine.space,
        queries.embeddings,
        near,
        around=around[place].astype(np.float64),
        doubt=doubt.of_queries,
        near_doubt=of_rows[place[:, :DOUBTED]].mean(axis=1),
        inside=np.array([name != "" for name in queries.itself]),
    )
    match = [
        matching(facts, [rows.metadata[hit] for hit in its])
        for facts, its in zip(queries.facts, place, strict=True)
    ]
    return seen, np.array(match)
