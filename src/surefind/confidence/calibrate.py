"""Fit a calibration to labelled queries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefind.confidence.calibration import (
    NOVELTY_LEVEL,
    Calibrated,
    Calibration,
    Curve,
    Origin,
    log_var_of,
    quality_of,
)
from surefind.confidence.conformal import fit_prediction_set, novelty_of, novelty_values
from surefind.confidence.copies import copies_among, first_copies
from surefind.confidence.density import LocalDensity
from surefind.confidence.drift import check_calibration_data, quantiles_of
from surefind.confidence.evidence import COLUMNS, Neighbourhood, Numbers, evidence
from surefind.confidence.guarantee import guarantee_precision
from surefind.confidence.labelled_queries import (
    LEAST_QUERIES,
    CalibrationData,
    LabelledQueries,
    QueryVariance,
    check_enough,
    check_queries,
    checked_gallery,
    classes_of,
    collect_calibration_data,
    is_labelled,
    is_missing,
)
from surefind.confidence.match_model import fit_confidence, folds_of
from surefind.confidence.variance_fit import FEWEST_CLASSES, fit_variance_heads
from surefind.datasets import read_catalog
from surefind.embeddings import Embeddings
from surefind.encoders.image_encoder import ImageEncoder
from surefind.encoders.serialization import class_hashes
from surefind.engines.base import Engine
from surefind.engines.filters import Metadata
from surefind.engines.knn import nearest
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog
from surefind.images.digest import digest_of
from surefind.validation import check_number, check_share, check_whole

STEPS = 150  # of learning which images are vague
MOST_QUERIES = 5000  # asked of an index; of more, as many are drawn at random
_STILL = 1e-6  # what varies less was not learned

Progress = Callable[[str, int, int], None]  # stage, done, total


@dataclass(frozen=True)
class CalibrationTargets:
    """What is asked of a calibration."""

    precision: float = 0.95  # of what is called a match
    probability: float = 0.9  # that this is kept
    ahead: int | None = None  # by the next so many queries; None: in the long run
    miss: float = 0.1  # how often no match may be among the hits that are shown
    novelty_level: float = NOVELTY_LEVEL

    def __post_init__(self) -> None:
        """Before any work that is done for them."""
        for name in ("precision", "probability", "miss"):
            check_share(name, getattr(self, name))
        rate, expected = self.novelty_level, "a share from 0 to below 1"
        check_number("novelty_level", rate, expected, lambda share: 0 <= share < 1)
        if self.ahead is not None:
            check_whole("ahead", self.ahead)


def fit_calibration(
    data: CalibrationData, origin: Origin, targets: CalibrationTargets
) -> Calibration:
    """Confidence, novelty, guarantee and size of the answer; all judged across classes."""
    check_enough(data)
    names = columns_of(data.seen)
    model, confidence = fit_confidence(
        data.seen, data.match, data.fold, names=names, unseen=data.unseen
    )
    first, curve = confidence[:, 0], curve_of(confidence, data)
    return Calibration(
        origin=origin,
        model=model,
        novelty=novelty_of(novelty_values(data.seen)[data.belongs]),
        guarantee=guarantee_precision(
            first,
            data.match[:, 0],
            data.groups,
            precision=targets.precision,
            probability=targets.probability,
            ahead=targets.ahead,
        ),
        showing=fit_prediction_set(confidence, data.match, data.groups, miss=targets.miss),
        curve=curve,
        quality=quality_of(curve, data.seen),
        usual=quantiles_of(first_hit_columns(data.seen, names, first)),
        novelty_level=targets.novelty_level,
    )


def curve_of(confidence: Numbers, data: CalibrationData) -> Curve:
    """Cross-fitted confidence of first hits, and that of the baseline in the same folds."""
    _, alone = fit_confidence(data.seen, data.match, data.fold, names=("distance",))
    return Curve(
        tuple(confidence[:, 0].tolist()),
        tuple(alone[:, 0].tolist()),
        tuple(data.match[:, 0].tolist()),
        tuple(data.fold.tolist()),
    )


def columns_of(seen: Neighbourhood) -> tuple[str, ...]:
    """The columns that can say anything: those of a variance only where it was learned."""
    there = {"distances", "density", "overlap"}
    if np.ptp(np.log(seen.query_var)) > _STILL:
        there.add("variance")
    if np.ptp(seen.log_var) > _STILL:
        there.add("log_var")
    return tuple(name for name, column in COLUMNS.items() if column.source in there)


def first_hit_columns(
    seen: Neighbourhood, names: tuple[str, ...], confidence: Numbers
) -> dict[str, Numbers]:
    """Evidence and confidence of first hits, to compare later queries with."""
    first = evidence(seen, names)[:, 0]
    return dict(zip(names, first.T, strict=True)) | {"confidence": confidence}


def calibrate_engine(
    engine: Engine,
    queries: LabelledQueries,
    targets: CalibrationTargets,
    *,
    source: str,
    log_var: QueryVariance | None = None,
    trained_with: frozenset[str] = frozenset(),
    progress: Progress = lambda *_: None,
) -> Calibrated:
    """Ask labelled queries, and fit a calibration to what was found.

    `trained_with` are the codes of the classes that the model knows too well.
    """
    gallery = checked_gallery(engine)
    neighbourhoods = LocalDensity.of(
        engine,
        progress=lambda done: progress("looking around every image", done, engine.count()),
    )
    total = len(queries.facts)
    log_var = log_var or QueryVariance(None, np.zeros(total))
    data = collect_calibration_data(
        engine,
        queries,
        neighbourhoods,
        log_var=log_var,
        gallery=gallery,
        progress=lambda done: progress("asking labelled queries", done, total),
    )
    remarks = check_calibration_data(data.match[:, 0], data.groups, has_match=data.belongs)
    classes = class_hashes(facts["label"] for facts in queries.facts if "label" in facts)
    if known := len(classes & trained_with):
        remarks = (
            f"{known} of the {len(classes)} classes were used to train the model, which is surer "
            "of them than it will be of others: calibrate with classes it never saw, unless these "
            "are all",
            *remarks,
        )
    origin = Origin(
        fingerprint=str(engine.facts["fingerprint"]),
        ranking=engine.space.ranking,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        source=source,
        queries=len(data.match),
        classes=len(np.unique(data.groups)),
        without_match=int((~data.belongs).sum()),
        gallery=data.gallery,
        copies=data.copies,
        remarks=remarks,
    )
    return Calibrated(fit_calibration(data, origin, targets), neighbourhoods, log_var.heads)


def labelled_queries(
    engine: Engine,
    encoder: Callable[[], ImageEncoder],
    labelled: Catalog | str | Path | Embeddings | None,
    labels: Sequence[object] | None,
    *,
    seed: int = 0,
    progress: Progress = lambda *_: None,
) -> tuple[LabelledQueries, str]:
    """Embeddings with labels, images, or the rows of the index itself; and what they are called.

    Images that are in the index are not their own hits. Of queries that are copies of one another
    only the first is asked.
    """
    if labels is not None and not isinstance(labelled, Embeddings):
        expected = "none, unless queries are embeddings"
        raise InvalidArgument("labels", expected=expected, got=str(len(labels)))
    if labelled is None:  # copies among these are rows of the index, and counted as such
        return _asked_once(own_queries(engine, seed=seed))._replace(copies=0), "the index itself"
    if isinstance(labelled, Embeddings):
        engine.space.check(labelled)
        queries = _asked_once(embedded_queries(labelled, labels, seed=seed))
        return queries._replace(itself=_twins(engine, queries.embeddings)), "embeddings"
    catalog = labelled if isinstance(labelled, Catalog) else read_catalog(labelled)
    if catalog.queries:
        catalog = catalog.select(np.flatnonzero(catalog.queries))
    catalog = catalog.select(_drawn(len(catalog), seed))
    _labelled_rows(catalog.metadata)  # before the work
    encoded = encoder().encode_all(
        catalog.files, progress=lambda done: progress("encoding", done, len(catalog))
    )
    kept = encoded.rows.tolist()
    digests = [digest_of(catalog.file(row)) for row in kept]
    inside = engine.ids_of(digests)
    names = [inside.get(digest, "") for digest in digests]
    facts = [catalog.metadata[row] for row in kept]
    source = str(labelled.root if isinstance(labelled, Catalog) else labelled)
    return _asked_once(_queries(encoded.embeddings, facts, names, digests)), source


def own_queries(engine: Engine, *, seed: int = 0) -> LabelledQueries:
    """The labelled rows of the index itself, each to be asked of the others."""
    keys = np.concatenate([block.keys for block in engine.scan()] or [np.empty(0, np.int64)])
    rows = engine.rows(keys[_drawn(len(keys), seed)])
    return _queries(rows.embeddings, rows.metadata, rows.ids, rows.digests)


def embedded_queries(
    query: Embeddings, labels: Sequence[object] | None, *, seed: int = 0
) -> LabelledQueries:
    """Embeddings with what they show, as if none of them were in the index."""
    if labels is None or len(labels) != len(query):
        raise InvalidArgument(
            "labels",
            expected=f"{len(query)}, one for each query",
            got="none" if labels is None else str(len(labels)),
        )
    rows = _drawn(len(query), seed).tolist()
    facts = [{} if is_missing(labels[row]) else {"label": str(labels[row])} for row in rows]
    return _queries(query[rows], facts, [""] * len(rows))


def _queries(
    embeddings: Embeddings,
    facts: Sequence[Metadata],
    itself: Sequence[str],
    digests: Sequence[str] = (),
) -> LabelledQueries:
    known, groups = _labelled_rows(facts)
    embeddings = embeddings.detach().to("cpu").to(torch.float32)
    nobody = np.zeros(len(facts), np.int64)
    queries = LabelledQueries(embeddings, facts, itself, nobody, digests).at(known)
    return queries._replace(groups=groups)


def _labelled_rows(facts: Sequence[Metadata]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows with a label or a place, and their classes, if they are enough."""
    known = [row for row, fact in enumerate(facts) if is_labelled(fact)]
    if not known:
        raise InvalidArgument(
            "labelled",
            expected="queries with labels (or places), so that a hit can be right or wrong",
            got=f"{len(facts)} without" if facts else "no queries",
            fix="use a folder with a sub-folder per class, or a table with a label column",
        )
    groups = classes_of([facts[row] for row in known])
    check_queries(groups)
    return np.array(known, dtype=np.int64), groups


def _asked_once(queries: LabelledQueries) -> LabelledQueries:
    """Without queries that are copies of another."""
    labels = [str(facts.get("label")) for facts in queries.facts]
    once = rows_asked(queries.embeddings.mean, labels, queries.digests)
    return queries.at(once)._replace(copies=len(labels) - len(once))


def rows_asked(
    means: Tensor, labels: Sequence[str], digests: Sequence[str] = ()
) -> NDArray[np.int64]:
    """Rows that are no copies of an earlier one, if they are enough."""
    once = np.unique(first_copies(means.numpy(), digests, labels=labels))
    if len(once) < LEAST_QUERIES:
        raise InvalidArgument(
            "labelled",
            expected=f"at least {LEAST_QUERIES} labelled queries that are no copies of another",
            got=f"{len(once)} of {len(means)}",
            fix="label other images; if these differ, the model gives them the same vector",
        )
    return once


def _twins(engine: Engine, queries: Embeddings) -> list[str]:
    """The id of the row that a query is equal to; "" where there is none.

    Embeddings have no digest, and a query that finds itself would make every first hit right.
    """
    near = nearest(engine, queries, 1, ranking="mean")
    names = [""] * len(queries)
    if not near.keys.shape[1]:
        return names
    means = engine.space.means(near.vectors)
    equal = np.flatnonzero(copies_among(near, means, queries.mean.double().numpy())[:, 0])
    keys, place = np.unique(near.keys[equal, 0], return_inverse=True)  # equal queries share a row
    ids = engine.rows(keys).ids
    for row, its in zip(equal, place, strict=True):
        names[row] = ids[its]
    return names


def learned_variance(
    queries: LabelledQueries, *, seed: int = 0, progress: Progress = lambda *_: None
) -> QueryVariance | None:
    """Heads that say how vague a query is; what is said here comes from heads of other classes."""
    pairs = int((np.bincount(queries.groups) > 1).sum())
    if pairs < FEWEST_CLASSES or not all("label" in facts for facts in queries.facts):
        return None  # places are no classes, and classes of one query have no positives
    return fit_query_variance(queries.embeddings.mean, queries.groups, seed=seed, progress=progress)


def fit_query_variance(
    vectors: Tensor,
    groups: NDArray[np.int64],
    *,
    what: str = "images",
    seed: int = 0,
    progress: Progress = lambda *_: None,
) -> QueryVariance:
    """Learn heads from vectors (N, D) of all classes, and for each fold from those of the others.

    A query is judged by heads that did not see its class; where a fold is judged, all queries are
    by heads that saw none of its classes.
    """
    fold = folds_of(groups)
    rounds, stage = 1 + int(fold.max()) + 1, f"learning which {what} are vague"

    def fit(rows: NDArray[np.int64], number: int) -> QueryVariance:
        fitted = fit_variance_heads(
            vectors[rows],
            groups[rows],
            steps=STEPS,
            seed=seed,
            progress=lambda done: progress(stage, number * STEPS + done, rounds * STEPS),
        )
        said = log_var_of(fitted.heads, vectors)
        said[rows] = fitted.log_var.double().numpy()
        return QueryVariance(fitted.heads, said)

    whole = fit(np.arange(len(groups)), 0)
    nested = []
    for number in range(rounds - 1):
        others = np.flatnonzero(fold != number)
        enough = (np.bincount(groups[others]) > 1).sum() >= FEWEST_CLASSES
        nothing = QueryVariance(None, np.zeros(len(groups)))
        nested.append(fit(others, number + 1) if enough else nothing)
    return whole._replace(fold=fold, nested=tuple(nested))


def _drawn(total: int, seed: int) -> NDArray[np.int64]:
    if total <= MOST_QUERIES:
        return np.arange(total)
    return np.sort(np.random.default_rng(seed).choice(total, MOST_QUERIES, replace=False))
