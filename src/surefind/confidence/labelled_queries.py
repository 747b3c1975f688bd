"""Search an index with labelled queries: their neighbourhoods, and which hits are matches."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from scipy.spatial import cKDTree  # type: ignore[import-untyped]

from surefind.confidence.calibration import LOG_VAR_NEIGHBOURS
from surefind.confidence.class_table import LABEL, label_of, labels_of
from surefind.confidence.evidence import NEIGHBOURS, Neighbourhood, Numbers, collect_neighbourhood, embeddings_of
from surefind.confidence.match_model import folds_of
from surefind.confidence.neighbours import (
    LocalDensity,
    copies_among,
    distances_to_others,
    known_density,
    nearest_others,
)
from surefind.confidence.variance_heads import VarianceHeads
from surefind.embeddings import FAMILIES, Embeddings
from surefind.engines.base import Engine, Keys
from surefind.engines.filters import Metadata, Where
from surefind.engines.knn import Nearest
from surefind.errors import InvalidArgument
from surefind.functional import fuse

RADIUS = 25.0  # metres; nearer places match
LEAST_QUERIES = 50
LEAST_CLASSES = 4
LEAST_OF_EACH = 5  # right first hits, and wrong ones
LEAST_GALLERY = NEIGHBOURS + 2
QUERIES_AT_ONCE = 256

Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


def is_labelled(facts: Metadata, field: str = LABEL, *, places: bool = True) -> bool:
    """Whether there is a label or, if `places` count, a place."""
    return label_of(facts, field) is not None or (places and _has_place(facts))


def matching(query: Metadata, rows: Sequence[Metadata]) -> Flags:
    """Return which rows match the query, (n,)."""
    if (own := label_of(query)) is not None:
        return np.array([label_of(row) == own for row in rows], dtype=bool)
    here = _place(query)
    return np.array([np.linalg.norm(_place(row) - here) <= RADIUS for row in rows], dtype=bool)


def queries_with_match(queries: Sequence[Metadata], gallery: Sequence[Metadata], *, left_out: Rows) -> Flags:
    """Return which queries have a match besides themselves and their copies, (Q,).

    `left_out` (Q,) is the number of matching rows that are the query or its copies.
    """
    counts = Counter(map(label_of, gallery))
    tree = cKDTree(np.array([_place(row) for row in gallery if _has_place(row)]).reshape(-1, 3))
    found = [
        counts[own]
        if (own := label_of(query)) is not None
        else tree.query_ball_point(_place(query), RADIUS, return_length=True)
        for query in queries
    ]
    return np.asarray(np.array(found) > left_out)


def classes_of(queries: Sequence[Metadata], field: str = LABEL) -> Rows:
    """Class codes of the labels; without labels each query is a class of its own."""
    labels = labels_of(queries, field)
    if None in labels:
        return np.arange(len(queries))
    return np.unique(np.array(labels, dtype=str), return_inverse=True)[1]


def _has_place(facts: Metadata) -> bool:
    return not np.isnan(_place(facts)).any()


def _place(facts: Metadata) -> NDArray[np.float64]:
    """Position in metres, (3,); NaN if unknown."""
    names = ("earth_x", "earth_y", "earth_z") if "earth_x" in facts else ("east", "north")
    found = [facts.get(name, np.nan) for name in names]
    return np.array([*found, 0.0][:3], dtype=np.float64)


class CalibrationData(NamedTuple):
    """Labelled queries after the search: Q queries with H hits each."""

    neighbourhood: Neighbourhood
    match: Flags  # (Q, H)
    class_codes: Rows  # (Q,)
    has_match: Flags  # (Q,), whether the gallery has a match
    fold: Rows  # (Q,), for cross-fitting
    copies: int = 0  # of queries, left out
    held_out: tuple[Neighbourhood, ...] = ()  # per fold, with heads that never saw it; or empty


def check_enough(data: CalibrationData) -> None:
    """Raise InvalidArgument unless a confidence can be fitted to the data."""
    check_queries(data.class_codes)
    if not data.has_match.any():
        raise InvalidArgument(
            "labelled",
            expected="queries of which the index holds matches",
            got=f"{len(np.unique(data.class_codes))} classes without another image in the index",
            fix="use the labels of the index, with at least two images per class",
        )
    first = data.match[:, 0]
    for what, found in (("right", first.sum()), ("wrong", (~first).sum())):
        _require(f"queries whose first hit is {what}", int(found), LEAST_OF_EACH, data.class_codes)


def check_queries(class_codes: Rows) -> None:
    """Raise InvalidArgument unless there are enough queries and classes."""
    _require("labelled queries", len(class_codes), LEAST_QUERIES, class_codes)
    _require("classes", len(np.unique(class_codes)), LEAST_CLASSES, class_codes)


def _require(what: str, found: int, least: int, class_codes: Rows) -> None:
    if found < least:
        got = f"{found} (of {len(class_codes)} queries of {len(np.unique(class_codes))} classes)"
        raise InvalidArgument("labelled", expected=f"at least {least} {what}", got=got)


class LabelledQueries(NamedTuple):
    """Queries with labels or places."""

    embeddings: Embeddings
    facts: Sequence[Metadata]  # metadata with a label or a place
    self_ids: Sequence[str]  # id of the query in the index; "" if it is not in it
    class_codes: Rows
    digests: Sequence[str] = ()  # of the image contents; "" if unknown
    copies: int = 0  # of these queries, left out

    def at(self, rows: Rows) -> "LabelledQueries":
        """Select queries; all of them without a copy."""
        if np.array_equal(rows, np.arange(len(self.facts))):
            return self
        return self._replace(
            embeddings=self.embeddings[rows.tolist()],
            facts=[self.facts[row] for row in rows],
            self_ids=[self.self_ids[row] for row in rows],
            class_codes=self.class_codes[rows],
            digests=[self.digests[row] for row in rows] if len(self.digests) else (),
        )

    def satisfying(self, where: Where) -> "LabelledQueries":
        """Select the queries that satisfy a filter; all, if none has its fields."""
        holds = np.array([where.holds(facts, float("nan")) for facts in self.facts], dtype=bool)
        return self.at(np.flatnonzero(holds)) if holds.any() else self

    def to_bytes(self, source: str) -> bytes:
        """Serialise queries of a source, to calibrate again with them."""
        facts = {
            "family": self.embeddings.family,
            "source": source,
            "facts": [dict(one) for one in self.facts],
            "self_ids": list(self.self_ids),
            "digests": list(self.digests),
            "copies": self.copies,
        }
        return save(
            {
                "mean": self.embeddings.mean.contiguous(),
                "spread": self.embeddings.spread.contiguous(),
                "class_codes": torch.from_numpy(self.class_codes),
                "facts": torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8),
            }
        )


def read_queries(content: bytes | None) -> tuple[LabelledQueries, str] | None:
    """Return queries and their source from `LabelledQueries.to_bytes`; None of nothing."""
    if content is None:
        return None
    tensors = load(content)
    facts = json.loads(tensors["facts"].numpy().tobytes())
    embeddings = FAMILIES[facts["family"]](*[tensors["mean"], tensors["spread"]])
    queries = LabelledQueries(
        embeddings, facts["facts"], facts["self_ids"], tensors["class_codes"].numpy(), facts["digests"], facts["copies"]
    )
    return queries, facts["source"]


def fused_queries(queries: LabelledQueries, views: int) -> LabelledQueries:
    """Return queries of several views each: images of one class, fused by their precision."""
    if any(queries.self_ids):
        raise InvalidArgument(
            "views",
            expected="labelled queries that are not in the index",
            got="images of the index",
            fix="calibrate with a labelled folder of other images first",
        )
    classes = [np.flatnonzero(queries.class_codes == code) for code in np.unique(queries.class_codes)]
    sets = [its[at : at + views] for its in classes for at in range(0, len(its) - views + 1, views)]
    if not sets:
        raise InvalidArgument("views", expected=f"classes with {views} labelled queries", got="fewer in each")
    fused = [fuse(queries.embeddings[its.tolist()]) for its in sets]
    some = queries.at(np.array([its[0] for its in sets]))
    return some._replace(embeddings=type(fused[0]).cat(fused), digests=())


class QueryVariance(NamedTuple):
    """Variance heads, and out-of-class log variances of the labelled queries."""

    heads: VarianceHeads | None
    log_var: Numbers  # (Q,), by heads that never saw the class of the query
    fold: Rows | None = None  # (Q,)
    nested: tuple["QueryVariance", ...] = ()  # per fold, heads that never saw it

    def at(self, rows: Rows) -> "QueryVariance":
        fold = None if self.fold is None else self.fold[rows]
        return QueryVariance(self.heads, self.log_var[rows], fold, tuple(its.at(rows) for its in self.nested))


def checked_gallery(engine: Engine) -> list[Metadata]:
    """Return the metadata of all rows; raise InvalidArgument if few or unlabelled."""
    gallery = [facts for block in engine.scan() for facts in engine.records(block.keys).metadata]
    if not any(map(is_labelled, gallery)):
        raise InvalidArgument(
            "index",
            expected="images with labels (or places)",
            got=f"{len(gallery)} images without",
            fix="index a folder with a sub-folder per class, or a table with a label column",
        )
    if len(gallery) < LEAST_GALLERY:
        raise InvalidArgument("index", expected=f"at least {LEAST_GALLERY} images", got=str(len(gallery)))
    return gallery


def collect_calibration_data(
    engine: Engine,
    queries: LabelledQueries,
    density: LocalDensity,
    *,
    query_variance: QueryVariance,
    gallery: Sequence[Metadata],
    progress: Callable[[int], None] = lambda _: None,
) -> CalibrationData:
    """Search for each query; the query itself and its copies are not hits.

    Queries that find fewer than NEIGHBOURS other images are dropped. `gallery` is that of `checked_gallery`.
    """
    log_var_by_id = [
        dict(zip(queries.self_ids, its.log_var.tolist(), strict=True))
        for its in (query_variance, *query_variance.nested)
    ]
    parts = []
    for start in range(0, len(queries.facts), QUERIES_AT_ONCE):
        rows = np.arange(start, min(start + QUERIES_AT_ONCE, len(queries.facts)))
        parts += _collect_batch(engine, queries, rows, density, query_variance, log_var_by_id)
        progress(int(rows[-1]) + 1)
    if not parts:
        raise InvalidArgument(
            "labelled",
            expected=f"queries that find {NEIGHBOURS} images besides their copies",
            got=f"{len(queries.facts)} that find fewer",
        )
    each_rows, each_neighbourhood, log_vars, match, left_out, copies = zip(*parts, strict=True)
    answered, neighbourhood = np.concatenate(each_rows), Neighbourhood.joined(each_neighbourhood)
    class_codes, facts = queries.class_codes[answered], [queries.facts[row] for row in answered]
    return CalibrationData(
        neighbourhood=neighbourhood,
        match=np.concatenate(match),
        class_codes=class_codes,
        has_match=queries_with_match(facts, gallery, left_out=np.concatenate(left_out)),
        fold=folds_of(class_codes) if query_variance.fold is None else query_variance.fold[answered],
        copies=queries.copies + sum(copies),
        held_out=tuple(
            neighbourhood._replace(log_var=its[:, 0], neighbour_log_var=its[:, 1])
            for its in np.concatenate(log_vars, axis=1)[1:]
        ),
    )


def _collect_batch(
    engine: Engine,
    every: LabelledQueries,
    batch: Rows,
    density: LocalDensity,
    query_variance: QueryVariance,
    log_var_by_id: list[dict[str, float]],
) -> list[tuple[Rows, Neighbourhood, Numbers, Flags, Rows, int]]:
    """Search for some of the queries; return one batch, or none if no query found enough.

    A batch has: rows with enough hits (Q,); neighbourhoods; log variance of query and neighbours,
    by all heads and by those of each fold, (1 + F, Q, 2); matches (Q, H); number of matching rows
    left out, (Q,); number of copies left out.
    """
    rows = RowCache(engine)
    near, copies = nearest_without_copies(engine, every.at(batch), rows, NEIGHBOURS, vectors=True)
    enough = np.flatnonzero(near.found >= NEIGHBOURS)
    if not len(enough):
        return []
    near, batch, copies = near.at(enough), batch[enough], [copies[row] for row in enough]
    queries = every.at(batch)
    inside = np.array([name != "" for name in queries.self_ids])
    found = known_density(engine, density, near)
    count = np.array([len(its) for its in copies])  # one is removed later, by its distance
    if len(many := np.flatnonzero(count > 1)):  # neighbours are searched again, without the copies
        but = [copies[row] for row in many for _ in range(NEIGHBOURS)]
        anew = distances_to_others(engine, embeddings_of(engine.space, near.at(many)), but=but)
        found[many] = anew.reshape(found[many].shape)
    log_vars = np.stack(
        [
            np.c_[its.log_var[batch], _neighbour_log_var(engine, near, rows, its.heads, of_rows)]
            for its, of_rows in zip((query_variance, *query_variance.nested), log_var_by_id, strict=True)
        ]
    )
    neighbourhood = collect_neighbourhood(
        engine.space,
        engine.space.var(queries.embeddings),
        near,
        hit_knn_distances=found,
        log_var=log_vars[0, :, 0],
        neighbour_log_var=log_vars[0, :, 1],
        inside=(count == 1) | (inside & (count == 0)),
    )
    match, left_out, others = [], [], 0
    for facts, name, hits, its in zip(queries.facts, queries.self_ids, near.keys, copies, strict=True):
        own = rows.read(its)
        match.append(matching(facts, [row[2] for row in rows.read(hits)]))
        left_out.append(matching(facts, [row[2] for row in own]).sum())
        others += sum(row[0] != name for row in own)
    return [(batch, neighbourhood, log_vars, np.array(match), np.maximum(left_out, inside), others)]


def nearest_without_copies(
    engine: Engine, queries: LabelledQueries, rows: "RowCache", k: int, field: str = LABEL, *, vectors: bool = False
) -> tuple[Nearest, list[Keys]]:
    """Return the k nearest rows of each query without its copies, and the keys of the copies."""
    means = queries.embeddings.mean.double().numpy()

    def left_out(some: Rows, near: Nearest) -> Flags:
        out = copies_among(near, means[some])
        rows.read(near.keys[np.isfinite(near.ranked_by)])  # fills the cache
        for number, query in enumerate(some):
            own = queries.digests[query] if queries.digests else ""
            hits = rows.read(near.keys[number, : near.found[number]])
            for place, (name, digest, facts) in enumerate(hits):
                same = out[number, place] or (digest == own != "")
                labels = {label_of(queries.facts[query], field), label_of(facts, field)} - {None}
                out[number, place] = name == queries.self_ids[query] or (same and len(labels) < 2)
        return out

    return nearest_others(engine, queries.embeddings, k, left_out, vectors=vectors)


def _neighbour_log_var(
    engine: Engine, near: Nearest, rows: "RowCache", heads: VarianceHeads | None, log_var_by_id: dict[str, float]
) -> Numbers:
    """Mean log variance of the nearest rows, (Q,); for rows that are queries, out of class."""
    if heads is None:
        return np.zeros(len(near.keys))
    near = near.at((slice(None), slice(LOG_VAR_NEIGHBOURS)))
    keys, first, place = np.unique(near.keys, return_index=True, return_inverse=True)
    means = engine.space.means(near.vectors).reshape(-1, engine.space.dim)[first]
    each = zip(rows.read(keys), heads.log_var(means), strict=True)
    log_var = np.array([log_var_by_id.get(str(name), value) for (name, *_), value in each])
    return np.asarray(log_var[place.reshape(near.keys.shape)].mean(axis=1))


class RowCache:
    """Rows of an engine, each read once; of their metadata only the label, if its field is given.

    Then ids and digests are only those of the queries (None and ""), and rows that are alike are one object.
    """

    def __init__(self, engine: Engine, field: str = "", own: Iterable[str] = ()) -> None:
        self.engine, self.field, self.own = engine, field, frozenset(own)
        self.alike: dict[Any, tuple[str | None, str, Metadata]] = {}
        self.known: dict[Any, tuple[str | None, str, Metadata]] = {}

    def read(self, keys: Keys) -> list[tuple[str | None, str, Metadata]]:
        """Id, digest and metadata of each key."""
        names = keys.tolist()
        new = [name for name in dict.fromkeys(names) if name not in self.known]
        if new:
            rows = zip(*self.engine.records(np.array(new, dtype=keys.dtype)), strict=True)
            self.known |= dict(zip(new, map(self._shared, rows) if self.field else rows, strict=True))
        return [self.known[name] for name in names]

    def _shared(self, row: tuple[str, str, Metadata]) -> tuple[str | None, str, Metadata]:
        name, digest = row[0] if row[0] in self.own else None, row[1] if row[1] in self.own else ""
        label = label_of(row[2], self.field)
        return self.alike.setdefault((name, digest, label), (name, digest, {self.field: label or ""}))
