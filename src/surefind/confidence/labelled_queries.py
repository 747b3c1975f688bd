"""Labelled queries asked of an index: evidence, and which hits are right."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree  # type: ignore[import-untyped]

from surefind.confidence.calibration import LOG_VAR_NEIGHBOURS, log_var_of
from surefind.confidence.copies import copies_among, nearest_others
from surefind.confidence.density import LocalDensity, distances_to_others, known_density
from surefind.confidence.evidence import NEIGHBOURS, Neighbourhood, Numbers, embeddings_of, see
from surefind.confidence.match_model import folds_of
from surefind.confidence.variance_heads import VarianceHeads
from surefind.embeddings import Embeddings
from surefind.engines.base import Engine, Keys
from surefind.engines.filters import Metadata
from surefind.engines.knn import Nearest
from surefind.errors import InvalidArgument

RADIUS = 25.0  # metres; nearer places are the same

Flags = NDArray[np.bool_]


def is_labelled(facts: Metadata) -> bool:
    return "label" in facts or _has_place(facts)


def is_missing(label: object) -> bool:
    """Tables have nan, None or nothing where there is no label."""
    return label is None or label == "" or label != label


def matching(query: Metadata, rows: Sequence[Metadata]) -> Flags:
    """Which rows match, (n,)."""
    if "label" in query:
        return np.array([_label(row) == _label(query) for row in rows], dtype=bool)
    here = _place(query)
    return np.array([np.linalg.norm(_place(row) - here) <= RADIUS for row in rows], dtype=bool)


def contradict(query: Metadata, row: Metadata) -> bool:
    """Whether both have labels, and not the same."""
    return "label" in query and "label" in row and _label(query) != _label(row)


def has_match(
    queries: Sequence[Metadata], gallery: Sequence[Metadata], *, left_out: NDArray[np.int64]
) -> Flags:
    """Which queries have a match besides themselves and their copies, (Q,).

    `left_out` (Q,) is how many rows those are that would match.
    """
    counts = Counter(map(_label, gallery))
    tree = cKDTree(np.array([_place(row) for row in gallery if _has_place(row)]).reshape(-1, 3))
    found = [
        counts[_label(query)]
        if "label" in query
        else tree.query_ball_point(_place(query), RADIUS, return_length=True)
        for query in queries
    ]
    return np.asarray(np.array(found) > left_out)


def classes_of(queries: Sequence[Metadata]) -> NDArray[np.int64]:
    """A number for each class; places are each on their own."""
    if all("label" in facts for facts in queries):
        return np.unique([str(facts["label"]) for facts in queries], return_inverse=True)[1]
    return np.arange(len(queries))


def _label(facts: Metadata) -> str | None:
    """As a text: 3 in a table is the class "3" of a folder."""
    return str(facts["label"]) if "label" in facts else None


def _has_place(facts: Metadata) -> bool:
    return not np.isnan(_place(facts)).any()


def _place(facts: Metadata) -> NDArray[np.float64]:
    """Metres, (3,): on a plane, or on the Earth; nan where it is not known."""
    names = ("earth_x", "earth_y", "earth_z") if "earth_x" in facts else ("east", "north")
    found = [facts.get(name, np.nan) for name in names]
    return np.array([*found, 0.0][:3], dtype=np.float64)


LEAST_QUERIES = 50
LEAST_CLASSES = 4
LEAST_OF_EACH = 5  # right first hits, and wrong ones


class CalibrationData(NamedTuple):
    """Q queries with H hits each."""

    seen: Neighbourhood
    match: Flags  # (Q, H)
    groups: NDArray[np.int64]  # (Q,), their classes
    belongs: Flags  # (Q,), whether the gallery has a match at all
    fold: NDArray[np.int64]  # (Q,), for cross-fitting
    gallery: int  # images in it
    copies: int = 0  # of queries, left out of the gallery that those searched
    unseen: tuple[
        Neighbourhood, ...
    ] = ()  # by fold: `seen` with nothing learned from it; empty if equal


def check_enough(data: CalibrationData) -> None:
    """Refuse what no confidence can be fitted to, saying how much is missing."""
    check_queries(data.groups)
    if not data.belongs.any():
        raise InvalidArgument(
            "labelled",
            expected="queries of which the index holds matches",
            got=f"{len(np.unique(data.groups))} classes, none of which has another image in it",
            fix="label queries as the images of the index are; at least two images to a class",
        )
    right = int(data.match[:, 0].sum())
    for what, found in (("right", right), ("wrong", len(data.match) - right)):
        _require(f"queries whose first hit is {what}", found, LEAST_OF_EACH, data.groups)


def check_queries(groups: NDArray[np.int64]) -> None:
    """The part of it that is known before any query is asked."""
    _require("labelled queries", len(groups), LEAST_QUERIES, groups)
    _require("classes", len(np.unique(groups)), LEAST_CLASSES, groups)


def _require(what: str, found: int, least: int, groups: NDArray[np.int64]) -> None:
    if found < least:
        raise InvalidArgument(
            "labelled",
            expected=f"at least {least} {what}",
            got=f"{found} (of {len(groups)} queries of {len(np.unique(groups))} classes)",
        )


QUERIES_AT_ONCE = 256
LEAST_GALLERY = NEIGHBOURS + 2


class LabelledQueries(NamedTuple):
    """Queries of which it is known what they show."""

    embeddings: Embeddings
    facts: Sequence[Metadata]  # with a label, or a place
    itself: Sequence[str]  # the id under which a query is in the index; "" if it is not
    groups: NDArray[np.int64]  # their classes
    digests: Sequence[str] = ()  # of their images' contents; "" where unknown
    copies: int = 0  # of these queries, which are not asked again

    def at(self, rows: NDArray[np.int64]) -> "LabelledQueries":
        return self._replace(
            embeddings=self.embeddings[rows.tolist()],
            facts=[self.facts[row] for row in rows],
            itself=[self.itself[row] for row in rows],
            groups=self.groups[rows],
            digests=[self.digests[row] for row in rows] if len(self.digests) else (),
        )


class QueryVariance(NamedTuple):
    """Learned heads, and what those say of labelled queries that did not see their classes."""

    heads: VarianceHeads | None
    of_queries: Numbers  # (Q,), log variance
    fold: NDArray[np.int64] | None = None  # (Q,), of each query
    nested: tuple["QueryVariance", ...] = ()  # for each fold, by heads that saw no class of it

    def at(self, rows: NDArray[np.int64]) -> "QueryVariance":
        fold = None if self.fold is None else self.fold[rows]
        nested = tuple(its.at(rows) for its in self.nested)
        return QueryVariance(self.heads, self.of_queries[rows], fold, nested)


def checked_gallery(engine: Engine) -> list[Metadata]:
    """What is known about the rows, if they are enough and labelled."""
    gallery = [facts for block in engine.scan() for facts in engine.rows(block.keys).metadata]
    if not any(map(is_labelled, gallery)):
        raise InvalidArgument(
            "index",
            expected="images with labels (or places), so that a hit can be right or wrong",
            got=f"{len(gallery)} images without",
            fix="index a folder with a sub-folder per class, or a table with a label column",
        )
    if len(gallery) < LEAST_GALLERY:
        raise InvalidArgument(
            "index", expected=f"at least {LEAST_GALLERY} images", got=str(len(gallery))
        )
    return gallery


def collect_calibration_data(
    engine: Engine,
    queries: LabelledQueries,
    neighbourhoods: LocalDensity,
    *,
    log_var: QueryVariance,
    gallery: Sequence[Metadata],
    progress: Callable[[int], None] | None = None,
) -> CalibrationData:
    """Search for each query; neither the query itself nor a copy of it is a hit.

    A query with too few others to be judged by is left out. `gallery` is from `checked_gallery`.
    """
    unseen = [
        dict(zip(queries.itself, its.of_queries.tolist(), strict=True))
        for its in (log_var, *log_var.nested)
    ]
    parts = []
    for start in range(0, len(queries.facts), QUERIES_AT_ONCE):
        rows = np.arange(start, min(start + QUERIES_AT_ONCE, len(queries.facts)))
        parts += _ask(engine, queries, rows, neighbourhoods, log_var, unseen)
        if progress is not None:
            progress(int(rows[-1]) + 1)
    if not parts:
        raise InvalidArgument(
            "labelled",
            expected=f"queries that find {NEIGHBOURS} images besides their copies",
            got=f"{len(queries.facts)} that find fewer",
        )
    each_rows, each_seen, log_vars, match, left_out, copies = zip(*parts, strict=True)
    answered, seen = np.concatenate(each_rows), Neighbourhood.joined(each_seen)
    groups = queries.groups[answered]
    return CalibrationData(
        seen,
        np.concatenate(match),
        groups,
        has_match(
            [queries.facts[row] for row in answered], gallery, left_out=np.concatenate(left_out)
        ),
        folds_of(groups) if log_var.fold is None else log_var.fold[answered],
        len(gallery),
        queries.copies + sum(copies),
        tuple(
            seen._replace(log_var=its[:, 0], neighbour_log_var=its[:, 1])
            for its in np.concatenate(log_vars, axis=1)[1:]
        ),
    )


_Answered = tuple[NDArray[np.int64], Neighbourhood, Numbers, Flags, NDArray[np.int64], int]


def _ask(
    engine: Engine,
    every: LabelledQueries,
    asked: NDArray[np.int64],
    neighbourhoods: LocalDensity,
    log_var: QueryVariance,
    unseen: list[dict[str, float]],
) -> list[_Answered]:
    """Search for some of the queries; one answer, or none where no query found enough.

    Rows that found enough (Q,); evidence; log variance of query and neighbours, by all heads and by
    those of each fold, (1 + F, Q, 2); matches (Q, H); how many copies would match, (Q,); how many
    copies were left out.
    """
    rows = _RowsRead(engine)
    near, copies = _others(engine, every.at(asked), rows)
    enough = np.flatnonzero(near.found >= NEIGHBOURS)
    if not len(enough):
        return []
    near, asked, copies = near.at(enough), asked[enough], [copies[row] for row in enough]
    queries = every.at(asked)
    inside = np.array([name != "" for name in queries.itself])
    around, one = _around(engine, neighbourhoods, near, copies)
    log_vars = np.stack(
        [
            np.c_[its.of_queries[asked], _near_doubt(engine, near, rows, its.heads, of_rows)]
            for its, of_rows in zip((log_var, *log_var.nested), unseen, strict=True)
        ]
    )
    seen = see(
        engine.space,
        queries.embeddings,
        near,
        around=around,
        log_var=log_vars[0, :, 0],
        neighbour_log_var=log_vars[0, :, 1],
        inside=one | (inside & (np.array([len(its) for its in copies]) == 0)),
    )
    match, left_out, others = [], [], 0
    for facts, name, hits, its in zip(
        queries.facts, queries.itself, near.keys, copies, strict=True
    ):
        match.append(matching(facts, [row[2] for row in rows.read(hits)]))
        own = rows.read(its)
        left_out.append(matching(facts, [row[2] for row in own]).sum())
        others += sum(row[0] != name for row in own)
    return [(asked, seen, log_vars, np.array(match), np.maximum(left_out, inside), others)]


def _others(
    engine: Engine, queries: LabelledQueries, rows: "_RowsRead"
) -> tuple[Nearest, list[Keys]]:
    """The nearest of each query that are no copies of it; and the keys of those that are."""
    means = queries.embeddings.mean.double().numpy()

    def left_out(some: NDArray[np.int64], near: Nearest) -> Flags:
        out = copies_among(near, engine.space.means(near.vectors), means[some])
        rows.read(near.keys[np.isfinite(near.ranked_by)])  # all at once
        for number, query in enumerate(some):
            own = queries.digests[query] if queries.digests else ""
            hits = rows.read(near.keys[number, : near.found[number]])
            for place, (name, digest, facts) in enumerate(hits):
                same = out[number, place] or (digest == own != "")
                out[number, place] = name == queries.itself[query] or (
                    same and not contradict(queries.facts[query], facts)
                )
        return out

    return nearest_others(engine, queries.embeddings, NEIGHBOURS, left_out)


def _around(
    engine: Engine, neighbourhoods: LocalDensity, near: Nearest, copies: list[Keys]
) -> tuple[Numbers, NDArray[np.bool_]]:
    """Around the hits, (Q, H, WIDTH); and for which queries one row is still to be left out.

    Of a query that has one row in the gallery, that is found by its distance; where there are
    more, the hits' neighbours are looked for anew without them.
    """
    around = known_density(engine, neighbourhoods, near)
    count = np.array([len(its) for its in copies])
    many = np.flatnonzero(count > 1)
    if len(many):
        rows = embeddings_of(engine.space, near.at(many))
        but = [copies[row] for row in many for _ in range(NEIGHBOURS)]
        anew = distances_to_others(engine, rows, but=but)
        around[many] = anew.reshape(around[many].shape)
    return around, count == 1


def _near_doubt(
    engine: Engine,
    near: Nearest,
    rows: "_RowsRead",
    heads: VarianceHeads | None,
    unseen: dict[str, float],
) -> Numbers:
    """Mean of the nearest, (Q,); those that are queries by heads of other classes."""
    near = near.at((slice(None), slice(LOG_VAR_NEIGHBOURS)))
    keys, first, place = np.unique(near.keys, return_index=True, return_inverse=True)
    means = engine.space.means(near.vectors).reshape(-1, engine.space.dim)[first]
    said = log_var_of(heads, torch.from_numpy(means))
    if heads is not None:
        each = zip(rows.read(keys), said, strict=True)
        said = np.array([unseen.get(name, value) for (name, *_), value in each])
    return np.asarray(said[place.reshape(near.keys.shape)].mean(axis=1))


class _RowsRead:
    """Rows of an engine, each read once."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.known: dict[Any, tuple[str, str, Metadata]] = {}

    def read(self, keys: Keys) -> list[tuple[str, str, Metadata]]:
        """Id, digest and metadata of each key."""
        names = keys.tolist()
        new = [name for name in dict.fromkeys(names) if name not in self.known]
        if new:
            rows = self.engine.rows(np.array(new, dtype=keys.dtype))
            each = zip(rows.ids, rows.digests, rows.metadata, strict=True)
            self.known |= dict(zip(new, each, strict=True))
        return [self.known[name] for name in names]
