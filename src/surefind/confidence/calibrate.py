"""Calibrate: load labelled queries, search them, fit a calibration."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefind import metrics
from surefind.confidence.calibration import NOVELTY_LEVEL, Calibrated, Calibration, Curve, Origin, Quality
from surefind.confidence.class_table import LABEL, Codes, is_missing, label_of
from surefind.confidence.conformal import chance_of_match, fit_prediction_set, novelty_of, novelty_values
from surefind.confidence.drift import check_calibration_data, first_hit_columns, quantiles_of
from surefind.confidence.evidence import COLUMNS, Neighbourhood, Numbers
from surefind.confidence.guarantee import PrecisionGuarantee, guarantee_precision
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
)
from surefind.confidence.match_model import crossfitted, fit_confidence, folds_of
from surefind.confidence.neighbours import MEASURED_AT_ONCE, Flags, LocalDensity, copies_among, first_copies
from surefind.confidence.variance_heads import FEWEST_CLASSES, fit_variance_heads
from surefind.embeddings import Embeddings
from surefind.encoders.image_encoder import ImageEncoder
from surefind.encoders.serialization import class_hashes
from surefind.engines.base import Engine
from surefind.engines.filters import Metadata
from surefind.engines.knn import names_of, nearest
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog
from surefind.images.loader import digest_of
from surefind.validation import check_number, check_share, check_whole

STEPS = 150  # of training the variance heads
MOST_QUERIES = 5000  # larger sets of labelled queries are sampled
_STILL = 1e-6  # a variance with a smaller range was not learned

Progress = Callable[[str, int, int], None]  # stage, done, total


@dataclass(frozen=True)
class CalibrationTargets:
    """Targets of a calibration.

    Raises:
        InvalidArgument: A target is out of range.
    """

    precision: float = 0.95  # share of results called a match that must be correct
    probability: float = 0.9  # that this holds
    horizon: int | None = None  # future queries for which it must hold; None: the long run
    miss_rate: float = 0.1  # share of queries that may have no match among the hits to show
    novelty_level: float = NOVELTY_LEVEL  # share of genuine queries that may get no_match
    unknown_share: float = 0.0  # expected share of queries whose class is not in the index

    def __post_init__(self) -> None:
        for name in ("precision", "probability", "miss_rate"):
            check_share(name, getattr(self, name))
        for name in ("novelty_level", "unknown_share"):
            share = getattr(self, name)
            check_number(name, share, "a share from 0 to below 1", lambda x: 0 <= x < 1)
        if self.horizon is not None:
            check_whole("horizon", self.horizon)

    def guarantee(self, confidence: Numbers, right: Flags, groups: Codes) -> PrecisionGuarantee:
        """Guarantee the precision of queries of these classes, by their surest answers."""
        return guarantee_precision(
            confidence, right, groups, precision=self.precision, probability=self.probability, horizon=self.horizon
        )


def fit_calibration(data: CalibrationData, origin: Origin, targets: CalibrationTargets) -> Calibration:
    """Fit confidence without labels of the gallery, cross-fitted by class."""
    check_enough(data)
    names = columns_of(data.neighbourhood)
    model, confidence = fit_confidence(data.neighbourhood, data.match, data.fold, names=names, held_out=data.held_out)
    order = np.argsort(-confidence, axis=1, kind="stable")
    sure = np.take_along_axis(confidence, order, axis=1)
    match = np.take_along_axis(data.match, order, axis=1)
    curve = curve_of(sure[:, 0], match[:, 0], data.match, data.neighbourhood.distance, data.fold)
    return Calibration(
        origin=origin,
        model=model,
        guarantee=targets.guarantee(sure[:, 0], match[:, 0], data.class_codes),
        prediction_set=fit_prediction_set(chance_of_match(sure), match, data.class_codes, miss_rate=targets.miss_rate),
        curve=curve,
        quality=quality_of(curve, data.neighbourhood.profile),
        novelty=novelty_of(novelty_values(data.neighbourhood.profile)[data.has_match]),
        reference_quantiles=quantiles_of(first_hit_columns(data.neighbourhood, names, sure[:, 0])),
        novelty_level=targets.novelty_level,
    )


def curve_of(confidence: Numbers, right: Flags, match: Flags, distance: Numbers, fold: Codes) -> Curve:
    """Cross-fitted confidence of first hits, and of a fit to the nearest distance alone."""
    alone = crossfitted(novelty_values(distance)[:, None], match[:, 0], fold, directions=(-1,))
    return Curve(*(tuple(column.tolist()) for column in (confidence, right, alone, match[:, 0], fold)))


def quality_of(curve: Curve, distance: Numbers, vote: tuple[Numbers, Flags] | None = None) -> Quality:
    """Quality of a curve, and of the distances (Q, K) of the same queries, ascending.

    `vote` is the uncertainty of a label vote, and whether it is right; (Q,) each.
    """
    fold = torch.tensor(curve.fold)
    right, nearest = (torch.tensor(its) for its in (curve.right, curve.baseline_right))
    own, other = (torch.tensor(sure, dtype=torch.float64) for sure in (curve.confidence, curve.baseline))

    def auroc(uncertainty: Numbers, right: Tensor) -> float | None:
        found = metrics.auroc_within(torch.from_numpy(uncertainty), ~right, fold)
        return None if math.isnan(found) else found

    return Quality(
        right=float(right.double().mean()),
        nearest_right=float(nearest.double().mean()),
        auroc=auroc(-np.array(curve.confidence), right),
        aurc=metrics.aurc(-own, ~right),
        ece=metrics.debiased_calibration_error(own, right),
        brier=float(metrics.brier_score(own, right).mean()),
        baseline_auroc=auroc(distance[:, 0].copy(), nearest),
        baseline_ece=metrics.debiased_calibration_error(other, nearest),
        baseline_brier=float(metrics.brier_score(other, nearest).mean()),
        floor=metrics.calibration_floor(own),
        baseline_floor=metrics.calibration_floor(other),
        ratio_auroc=auroc(distance_ratio(distance), nearest),
        vote_auroc=None if vote is None else auroc(vote[0], torch.from_numpy(vote[1])),
    )


def distance_ratio(distance: Numbers) -> Numbers:
    """First distance over the last, (Q,); 1 where both are 0."""
    nearest, farthest = distance[:, 0], distance[:, -1]
    return np.divide(nearest, farthest, out=np.ones_like(nearest), where=farthest > 0)


def columns_of(neighbourhood: Neighbourhood) -> tuple[str, ...]:
    """Names of the columns to use: those of a variance only if it was learned."""
    sources = {"distances", "density", "overlap"}
    if np.ptp(np.log(neighbourhood.query_var)) > _STILL:
        sources.add("variance")
    if np.ptp(neighbourhood.log_var) > _STILL:
        sources.add("log_var")
    return tuple(name for name, column in COLUMNS.items() if column.source in sources)


def calibrate_engine(
    engine: Engine,
    queries: LabelledQueries,
    targets: CalibrationTargets,
    *,
    source: str,
    query_variance: QueryVariance | None = None,
    trained_with: frozenset[str] = frozenset(),
    progress: Progress = lambda *_: None,
) -> Calibrated:
    """Search the labelled queries and fit a calibration without labels of the gallery.

    `trained_with` are hashes of the classes that the model was trained on.
    """
    gallery = checked_gallery(engine)
    density = LocalDensity.of(engine, progress=lambda done: progress("measuring local density", done, engine.count()))
    total = len(queries.facts)
    query_variance = query_variance or QueryVariance(None, np.zeros(total))
    data = collect_calibration_data(
        engine,
        queries,
        density,
        query_variance=query_variance,
        gallery=gallery,
        progress=lambda done: progress("searching labelled queries", done, total),
    )
    remarks = check_calibration_data(data.match[:, 0], data.class_codes, has_match=data.has_match)
    remarks = (*trained_classes(queries, trained_with), *remarks)
    origin = origin_of(engine, source, data.class_codes, data.has_match, remarks, copies=data.copies)
    return Calibrated(fit_calibration(data, origin, targets), density, query_variance.heads)


def trained_classes(queries: LabelledQueries, trained_with: frozenset[str], field: str = LABEL) -> tuple[str, ...]:
    """Return a remark if the model was trained with classes of the queries."""
    classes = class_hashes(str(facts[field]) for facts in queries.facts if field in facts)
    known = len(classes & trained_with)
    if not known:
        return ()
    return (
        f"{known} of the {len(classes)} classes were used to train the model, which is surer "
        "of them than it will be of others: calibrate with classes it never saw, unless these "
        "are all",
    )


def origin_of(
    engine: Engine, source: str, class_codes: Codes, has_match: Flags, remarks: tuple[str, ...], **more: Any
) -> Origin:
    return Origin(
        fingerprint=str(engine.facts["fingerprint"]),
        ranking=engine.space.ranking,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        source=source,
        queries=len(class_codes),
        classes=len(np.unique(class_codes)),
        without_match=int((~has_match).sum()),
        gallery=engine.count(),
        remarks=remarks,
        gallery_id=str(engine.facts.get("gallery", "")),
        **more,
    )


def targets_of(calibration: Calibration) -> CalibrationTargets:
    """Return the targets that a calibration was made for."""
    guarantee = calibration.guarantee
    return CalibrationTargets(
        precision=guarantee.precision,
        probability=guarantee.probability,
        horizon=guarantee.horizon,
        miss_rate=calibration.prediction_set.miss_rate,
        novelty_level=calibration.novelty_level,
        unknown_share=calibration.unknown_share,
    )


def load_labelled_queries(
    engine: Engine,
    encoder: Callable[[], ImageEncoder],
    labelled: Catalog | str | Path | Embeddings | None,
    labels: Sequence[object] | None,
    *,
    field: str = LABEL,
    without: frozenset[str] = frozenset(),
    at_least: bool = True,
    seed: int = 0,
    progress: Progress = lambda *_: None,
) -> tuple[LabelledQueries | None, str, str | None]:
    """Return labelled queries, a description of their source, and why there are none.

    `labelled` is a catalog or a source of one, embeddings (with `labels`), or None for the rows of
    the index, but those of classes with the hashes `without`. Images that are in the index are not
    their own hits; copies of a query are dropped. `at_least`: raise if there are too few.
    """
    if labels is not None and not isinstance(labelled, Embeddings):
        expected = "none, unless queries are embeddings"
        raise InvalidArgument("labels", expected=expected, got=str(len(labels)))
    if labelled is None:  # copies are rows of the index, counted by the search
        itself, queries = "the index itself", own_queries(engine, seed=seed, field=field, at_least=at_least)
        if not len(queries.facts):
            return None, itself, "no image of the index has a label"
        hashes = [class_hashes([label_of(facts, field) or ""]) for facts in queries.facts]
        unseen = np.flatnonzero([not its & without for its in hashes])
        if not len(unseen):
            seen = len(frozenset[str]().union(*hashes))
            return None, itself, f"the model was trained with all of the {seen} classes of the index"
        return _drop_copies(queries.at(unseen), field, at_least)._replace(copies=0), itself, None
    if isinstance(labelled, Embeddings):
        engine.space.check(labelled)
        queries = embedded_queries(labelled, labels, seed=seed, field=field, at_least=at_least)
        if not len(queries.facts):
            raise _unlabelled(len(labelled))
        queries = _drop_copies(queries, field, at_least)
        return queries._replace(self_ids=_equal_row_ids(engine, queries.embeddings)), "embeddings", None
    from surefind.datasets import read_catalog  # with pandas

    catalog = labelled if isinstance(labelled, Catalog) else read_catalog(labelled)
    if catalog.queries:
        catalog = catalog.select(np.flatnonzero(catalog.queries))
    catalog = catalog.select(_sample_rows(len(catalog), seed))
    if not len(_labelled_rows(catalog.metadata, field, at_least)[0]):  # before the work
        raise _unlabelled(len(catalog))
    encoded = encoder().encode_all(catalog.files, progress=lambda done: progress("encoding", done, len(catalog)))
    kept = encoded.rows.tolist()
    digests, facts = [digest_of(catalog.file(row)) for row in kept], [catalog.metadata[row] for row in kept]
    inside = engine.ids_of(digests)
    names = [inside.get(digest, "") for digest in digests]
    queries = _queries(encoded.embeddings, facts, names, digests, field=field, at_least=at_least)
    source = str(labelled.root if isinstance(labelled, Catalog) else labelled)
    return _drop_copies(queries, field, at_least), source, None


def own_queries(engine: Engine, *, seed: int = 0, field: str = LABEL, at_least: bool = True) -> LabelledQueries:
    """Labelled rows of the index, as queries to the other rows."""
    keys = np.concatenate([block.keys for block in engine.scan()] or [np.empty(0, np.int64)])
    rows = engine.rows(keys[_sample_rows(len(keys), seed)])
    return _queries(rows.embeddings, rows.metadata, rows.ids, rows.digests, field=field, at_least=at_least)


def embedded_queries(
    query: Embeddings, labels: Sequence[object] | None, *, seed: int = 0, field: str = LABEL, at_least: bool = True
) -> LabelledQueries:
    """Embeddings with labels, as queries that are not in the index."""
    if labels is None or len(labels) != len(query):
        raise InvalidArgument(
            "labels", expected=f"{len(query)}, one for each query", got="none" if labels is None else str(len(labels))
        )
    rows = _sample_rows(len(query), seed).tolist()
    facts = [{} if is_missing(labels[row]) else {field: str(labels[row])} for row in rows]
    some = query[rows] if len(rows) < len(query) else query
    return _queries(some, facts, [""] * len(rows), field=field, at_least=at_least)


def _queries(
    embeddings: Embeddings,
    facts: Sequence[Metadata],
    self_ids: Sequence[str],
    digests: Sequence[str] = (),
    *,
    field: str,
    at_least: bool,
) -> LabelledQueries:
    known, class_codes = _labelled_rows(facts, field, at_least)
    embeddings = embeddings.detach().to("cpu").to(torch.float32)
    queries = LabelledQueries(embeddings, facts, self_ids, np.zeros(len(facts), np.int64), digests)
    return queries.at(known)._replace(class_codes=class_codes)


def _labelled_rows(facts: Sequence[Metadata], field: str, at_least: bool) -> tuple[Codes, Codes]:
    """Return the labelled rows and their class codes; with `at_least` raise if too few."""
    known = [row for row, fact in enumerate(facts) if is_labelled(fact, field, places=at_least)]
    class_codes = classes_of([facts[row] for row in known], field)
    if at_least:
        if not known:
            raise _unlabelled(len(facts))
        check_queries(class_codes)
    return np.array(known, dtype=np.int64), class_codes


def _unlabelled(queries: int) -> InvalidArgument:
    return InvalidArgument(
        "labelled",
        expected="queries with labels (or places)",
        got=f"{queries} without" if queries else "no queries",
        fix="use a folder with a sub-folder per class, or a table with a label column",
    )


def _drop_copies(queries: LabelledQueries, field: str, at_least: bool) -> LabelledQueries:
    """Drop queries that are copies of another."""
    labels = [str(facts.get(field)) for facts in queries.facts]
    once = rows_without_copies(queries.embeddings.mean, labels, queries.digests, at_least=at_least)
    return queries.at(once)._replace(copies=len(labels) - len(once))


def rows_without_copies(
    means: Tensor, labels: Sequence[str], digests: Sequence[str] = (), *, at_least: bool = True
) -> Codes:
    """Return rows that are not copies of an earlier one; raise InvalidArgument if too few."""
    once = np.unique(first_copies(means.numpy(), digests, labels=labels))
    if at_least and len(once) < LEAST_QUERIES:
        raise InvalidArgument(
            "labelled",
            expected=f"at least {LEAST_QUERIES} labelled queries that are no copies of another",
            got=f"{len(once)} of {len(means)}",
            fix="label other images; if these do differ, the model maps them to the same vector",
        )
    return once


def _equal_row_ids(engine: Engine, queries: Embeddings) -> list[str]:
    """Return the id of the row that each query equals, "" if none.

    Embeddings have no digest; a query that finds itself would make every first hit right.
    """
    names: list[str] = []
    for start in range(0, len(queries), MEASURED_AT_ONCE):
        some = queries[start : start + MEASURED_AT_ONCE]
        near = nearest(engine, some, 1, ranking="mean")
        equal = copies_among(near, some.mean.double().numpy())
        found = names_of(engine, near._replace(ranked_by=np.where(equal, near.ranked_by, np.inf)))
        names += [name[0] if name else "" for name in found.tolist()]
    return names


def learned_variance(
    queries: LabelledQueries, *, seed: int = 0, progress: Progress = lambda *_: None
) -> QueryVariance | None:
    """Fit variance heads, unless there are too few labelled classes with pairs."""
    pairs = int((np.bincount(queries.class_codes) > 1).sum())
    if pairs < FEWEST_CLASSES or not all("label" in facts for facts in queries.facts):
        return None  # no positives
    return fit_query_variance(queries.embeddings.mean, queries.class_codes, seed=seed, progress=progress)


def fit_query_variance(
    vectors: Tensor, class_codes: Codes, *, what: str = "images", seed: int = 0, progress: Progress = lambda *_: None
) -> QueryVariance:
    """Fit variance heads to vectors (N, D) of all classes, and for each fold to the other folds.

    The log variance of a query comes from heads that never saw its class; that used to judge a
    fold, from heads that never saw any class of the fold.
    """
    fold = folds_of(class_codes)
    rounds, stage = 1 + int(fold.max()) + 1, f"learning the variance of {what}"

    def fit(rows: Codes, number: int) -> QueryVariance:
        fitted = fit_variance_heads(
            vectors[rows],
            class_codes[rows],
            steps=STEPS,
            seed=seed,
            progress=lambda done: progress(stage, number * STEPS + done, rounds * STEPS),
        )
        log_var = fitted.heads.log_var(vectors)
        log_var[rows] = fitted.log_var.double().numpy()
        return QueryVariance(fitted.heads, log_var)

    whole = fit(np.arange(len(class_codes)), 0)
    nested = []
    for number in range(rounds - 1):
        others = np.flatnonzero(fold != number)
        enough = (np.bincount(class_codes[others]) > 1).sum() >= FEWEST_CLASSES
        nothing = QueryVariance(None, np.zeros(len(class_codes)))
        nested.append(fit(others, number + 1) if enough else nothing)
    return whole._replace(fold=fold, nested=tuple(nested))


def _sample_rows(total: int, seed: int) -> Codes:
    if total <= MOST_QUERIES:
        return np.arange(total)
    return np.sort(np.random.default_rng(seed).choice(total, MOST_QUERIES, replace=False))
